import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { scripted, type Directive } from '../../src/engine/scripted/options.ts';
import {
  atRest,
  chat,
  engineHealth,
  requestLog,
  scriptedYaml,
  standStill,
  startService,
  until,
} from '../harness.ts';
import { assertError, requestText, Wire } from './wire.ts';

/** Longer than any test. */
const FOREVER = 1_000_000;

const service = await startService(
  scriptedYaml(
    { slots: 1 },
    'queue: {maxRequests: 2, maxWaitMs: 2000}\nstream: {holdMs: 50, keepAliveMs: 50}\n',
  ),
);
after(() => service[Symbol.asyncDispose]());

async function ask(directive: Directive, stream = false): Promise<Wire> {
  const wire = await Wire.open(service.url);
  const key = { Authorization: `Bearer ${service.key}` };
  return wire.send(requestText('POST /v1/chat/completions', key, chat(scripted(directive), { stream })));
}

/** A stream that has the one slot until it is disposed. */
async function holdSlot(): Promise<Wire> {
  const wire = await ask({ tokenMs: FOREVER }, true);
  await until(async () => (await engineHealth(service)).slotsInUse === 1);
  // The service hears of it a moment later, and counts the request among those that wait until then.
  await waits(0);
  return wire;
}

const waits = (count: number) => until(() => service.service.router.overview()[0]?.waiting === count);

test('one more than may wait is 503 queue_full at once, and the others are served when a slot is free', async () => {
  const first = await holdSlot();
  using second = await ask({ text: 'second' });
  using third = await ask({ text: 'third' }, true);
  await waits(2);
  for (const stream of [true, false]) {
    using fourth = await ask({ text: 'fourth' }, stream);
    const refused = await fourth.answer();
    assertError(refused, 'queue_full');
    assert.deepEqual(
      ['retry-after', 'retry-after-ms', 'x-should-retry'].map((name) => refused.header(name)),
      ['1', '1000', null],
    );
  }
  first[Symbol.dispose]();
  assert.match((await second.answer()).body, /"content":"second"/);
  assert.match((await third.answer()).body, /"content":"third"/);
  await atRest(service);
});

test('one who waits longer than maxWaitMs is queue_full: as a status, or in a frame where the 200 is out', async () => {
  using first = await holdSlot();
  using whole = await ask({ text: 'never' });
  using stream = await ask({ text: 'never' }, true);
  const refused = await whole.answer();
  assertError(refused, 'queue_full');
  assert.equal(refused.header('retry-after'), '1');
  const told = await stream.answer();
  assert.equal(told.status, 200);
  assert.match(told.body, /^(: keep-alive\n\n)+data: \{"error":.*\n\ndata: \[DONE\]\n\n$/);
  assert.match(told.body, /"code":"queue_full"\},"usage":\{"prompt_tokens":0,"completion_tokens":0,/);
  const lines = requestLog(service).slice(-2);
  assert.deepEqual(
    lines.map(({ status, code, queueMs }) => [status, code, queueMs]),
    [
      [503, 'queue_full', null],
      [503, 'queue_full', null],
    ],
  );
  first[Symbol.dispose]();
  await atRest(service);
});

test('a request whose slot came free while the service stood still is served', async () => {
  using first = await ask({ tokens: 2, tokenMs: 500 }, true);
  assert.equal((await first.head()).status, 200);
  await waits(0);
  using second = await ask({ text: 'second' });
  await waits(1);
  standStill(2500);
  assert.match((await second.answer()).body, /"content":"second"/);
  await atRest(service);
});

test('places come free when callers in the queue hang up', async () => {
  using first = await holdSlot();
  for (let round = 0; round < 3; round++) {
    using second = await ask({ text: 'never' });
    using third = await ask({ text: 'never' }, true);
    await waits(2);
    second.socket.destroy();
    third.socket.destroy();
    await waits(0);
  }
  first[Symbol.dispose]();
  await atRest(service);
});
