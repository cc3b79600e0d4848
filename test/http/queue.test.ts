import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import {
  untilIdle,
  untilWaiting,
  chat,
  engineHealth,
  pauseEngine,
  requestLog,
  scriptedYaml,
  blockProcess,
  startService,
  until,
} from '../harness.ts';
import { assertError, requestText, Wire } from './wire.ts';

/** Milliseconds; longer than any test. */
const FOREVER = 1_000_000;

/** Starts a service with one slot, in which requests wait at most this long, in milliseconds. */
const startQueue = (maxWaitMs: number, ownProcess = false) =>
  startService(
    scriptedYaml(
      { slots: 1, ownProcess },
      `queue: {maxRequests: 2, maxWaitMs: ${maxWaitMs}}\nstream: {holdMs: 50, keepAliveMs: 50}\n`,
    ),
  );

const service = await startQueue(FOREVER);
after(() => service[Symbol.asyncDispose]());

async function ask(directive: Directive, stream = false, { url, key: secret } = service): Promise<Wire> {
  const wire = await Wire.open(url);
  const key = { Authorization: `Bearer ${secret}` };
  return wire.send(requestText('POST /v1/chat/completions', key, chat(scripted(directive), { stream })));
}

/** Opens a stream that occupies the only slot until it is disposed. */
async function holdSlot(of = service): Promise<Wire> {
  const wire = await ask({ tokenMs: FOREVER }, true, of);
  await until(async () => (await engineHealth(of)).slotsInUse === 1);
  return wire;
}

test('a request that exceeds the queue is refused with queue_full at once, and the others are served', async () => {
  const first = await holdSlot();
  using second = await ask({ text: 'second' });
  using third = await ask({ text: 'third' }, true);
  await untilWaiting(service, 2);
  for (const stream of [true, false]) {
    using fourth = await ask({ text: 'fourth' }, stream);
    const refused = await fourth.response();
    assertError(refused, 'queue_full');
    assert.deepEqual(
      ['retry-after', 'retry-after-ms', 'x-should-retry'].map((name) => refused.header(name)),
      ['1', '1000', null],
    );
  }
  first[Symbol.dispose]();
  assert.match((await second.response()).body, /"content":"second"/);
  assert.match((await third.response()).body, /"content":"third"/);
  await untilIdle(service);
});

test('a request that waits longer than maxWaitMs ends with queue_full, as a status or in the stream', async () => {
  await using impatient = await startQueue(200);
  using _first = await holdSlot(impatient);
  using whole = await ask({ text: 'never' }, false, impatient);
  using stream = await ask({ text: 'never' }, true, impatient);
  const refused = await whole.response();
  assertError(refused, 'queue_full');
  assert.equal(refused.header('retry-after'), '1');
  const streamed = await stream.response();
  assert.equal(streamed.status, 200);
  assert.match(streamed.body, /^(: keep-alive\n\n)+data: \{"error":.*\n\ndata: \[DONE\]\n\n$/);
  assert.match(streamed.body, /"code":"queue_full"\},"usage":\{"prompt_tokens":0,"completion_tokens":0,/);
  const lines = requestLog(impatient).slice(-2);
  assert.deepEqual(
    lines.map(({ status, code, queueMs }) => [status, code, queueMs]),
    [
      [503, 'queue_full', null],
      [503, 'queue_full', null],
    ],
  );
});

test('a request whose slot became free while the service was suspended is served', async () => {
  await using suspended = await startQueue(2000, true);
  using paused = pauseEngine(suspended);
  using _first = await ask({}, true, suspended);
  await until(() => suspended.service.router.overview()[0]?.replicas[0]?.inFlight === 1);
  using second = await ask({ text: 'second' }, false, suspended);
  await untilWaiting(suspended, 1);
  paused.dispose();
  // In this time, the engine must complete the first request.
  blockProcess(4000);
  assert.match((await second.response()).body, /"content":"second"/);
});

test('queued clients that disconnect leave the queue', async () => {
  using first = await holdSlot();
  for (let round = 0; round < 3; round++) {
    using second = await ask({ text: 'never' });
    using third = await ask({ text: 'never' }, true);
    await untilWaiting(service, 2);
    second.socket.destroy();
    third.socket.destroy();
    await untilWaiting(service, 0);
  }
  first[Symbol.dispose]();
  await untilIdle(service);
});
