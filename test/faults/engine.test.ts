import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { startService, until } from '../harness.ts';
import { Management } from '../management.ts';
import { assertError, requestText, Wire } from '../http/wire.ts';

const MODELS = [
  'test/killed',
  'test/crashing',
  'test/hanging',
  'test/freezing',
  'test/suspect',
  'test/other',
];
/** Loads long enough that a request arrives before the engine has restarted. */
const SLOW_TO_LOAD = 'test/crashing';
const models = MODELS.map((id) => ({
  id,
  engine: {
    file: `scripted:${JSON.stringify({ ownProcess: true, loadMs: id === SLOW_TO_LOAD ? 2000 : 0 })}`,
  },
}));
const yaml = JSON.stringify({ models, engine: { stallMs: 3000 }, recovery: { maxAttempts: 0 } });
const service = await startService(yaml);
after(() => service[Symbol.asyncDispose]());
await until(() => service.service.embeddedReplicas.every((model) => model.state().state === 'ready'));

const key = { Authorization: `Bearer ${service.key}` };

async function send(model: string, directive: Directive, stream = true): Promise<Wire> {
  const body = { model, stream, messages: [{ role: 'user', content: scripted(directive) }] };
  const wire = await Wire.open(service.url);
  return wire.send(requestText('POST /v1/chat/completions', key, body));
}

/** Asserts that a stream ends with an error event and usage, after at least `tokens` chunks with text. */
function assertEndsWithError(body: string, tokens: number): void {
  const frames = body.split('\n\n');
  assert.deepEqual(frames.slice(-2), ['data: [DONE]', '']);
  const last = JSON.parse((frames.at(-3) ?? '').slice('data: '.length)) as {
    error: { code: string };
    usage: { prompt_tokens: number; completion_tokens: number };
  };
  assert.equal(last.error.code, 'engine_unavailable');
  const chunks = frames.filter((frame) => frame.includes('"delta":{"content"')).length;
  assert.ok(chunks >= tokens);
  assert.equal(last.usage.completion_tokens, chunks);
  assert.ok(last.usage.prompt_tokens > 0);
}

async function assertRestarts(model: string, crashedPid: number | null): Promise<void> {
  const replica = replicaOf(model);
  await until(() => replica.state().state === 'ready' && replica.pid !== crashedPid);
  using wire = await send(model, { text: 'back again' }, false);
  assert.match((await wire.response()).body, /"content":"back again"/);
}

function replicaOf(model: string): (typeof service.service.embeddedReplicas)[number] {
  const replica = service.service.embeddedReplicas[MODELS.indexOf(model)];
  assert.ok(replica);
  return replica;
}

test('without recovery, a killed engine ends its streams with an error and restarts, and other streams continue', async () => {
  const replica = replicaOf('test/killed');
  const { pid } = replica;
  assert.ok(pid !== null);
  using first = await send('test/killed', { tokens: 3000, tokenMs: 5 });
  using second = await send('test/killed', { tokens: 3000, tokenMs: 5 });
  using whole = await send('test/killed', { tokens: 3000, tokenMs: 5 }, false);
  using other = await send('test/other', { tokens: 40, tokenMs: 5 });
  // Both streams have received a token, and the other request has a slot.
  const received: string[] = [];
  for (const wire of [first, second]) {
    await wire.head();
    let text = '';
    while (!text.includes('"delta":{"content"')) text += await wire.chunk();
    received.push(text);
  }
  await until(() => inFlight('test/killed') === 3);
  process.kill(pid, 'SIGKILL');
  for (const [index, wire] of [first, second].entries()) {
    let text = received[index] ?? '';
    for (let chunk = await wire.chunk(); chunk !== null; chunk = await wire.chunk()) text += chunk;
    assertEndsWithError(text, 1);
  }
  const refused = await whole.response();
  assertError(refused, 'engine_unavailable');
  assert.equal(refused.header('retry-after'), '1');
  assert.match((await other.response()).body, /"finish_reason":"stop".*\n\ndata: \[DONE\]\n\n$/);
  await assertRestarts('test/killed', pid);
  assert.equal(inFlight('test/killed'), 0);
});

test('while an engine restarts, requests get 503 with a retry time', async () => {
  const replica = replicaOf(SLOW_TO_LOAD);
  const { pid } = replica;
  using crashing = await send(SLOW_TO_LOAD, { tokens: 9, dieAfter: 2 });
  assertEndsWithError((await crashing.response()).body, 1);
  await until(() => replica.state().state !== 'ready');
  using early = await send(SLOW_TO_LOAD, {});
  const refused = await early.response();
  assertError(refused, 'engine_unavailable');
  assert.equal(refused.header('retry-after'), '1');
  assert.match(refused.header('retry-after-ms') ?? '', /^\d+$/);
  await assertRestarts(SLOW_TO_LOAD, pid);
});

test('an engine without progress is killed and restarted', { concurrency: true }, async (group) => {
  const stalls: [model: string, directive: Directive][] = [
    ['test/hanging', { tokens: 9, hangAfter: 2 }],
    ['test/freezing', { tokens: 9, freezeAfter: 2 }],
  ];
  for (const [model, directive] of stalls) {
    group.test(model, async () => {
      const { pid } = replicaOf(model);
      using wire = await send(model, directive);
      assertEndsWithError((await wire.response()).body, 2);
      await assertRestarts(model, pid);
      assert.match(service.log(), new RegExp(`"engine":"${model}".*generation made no progress for `));
    });
  }
});

test('a request that was running during two crashes is refused without charge, and listed for operators', async () => {
  const model = 'test/suspect';
  const crash: Directive = { tokens: 9, dieAfter: 2 };
  const ids: string[] = [];
  for (const stream of [true, false]) {
    const { pid } = replicaOf(model);
    using wire = await send(model, crash, stream);
    const response = await wire.response();
    assert.match(response.body, /"code":"engine_unavailable"/);
    ids.push(response.header('x-request-id') ?? '');
    await assertRestarts(model, pid);
  }
  const { pid } = replicaOf(model);
  using third = await send(model, crash);
  const refused = await third.response();
  assertError(refused, 'request_crashed_engine');
  assert.match(refused.body, /refused for another \d+ s/);
  using other = await send(model, { text: 'another request' }, false);
  assert.match((await other.response()).body, /another request/);
  assert.equal(replicaOf(model).pid, pid);
  const management = await Management.of(service);
  for (const id of ids) {
    const line = `"requestId":"${id}","account":"default","key":"[^"]+".*engine crashed while running this request`;
    assert.match(service.log(), new RegExp(line));
    const { request } = await management.call('GET', `/api/receipts/${id}`);
    const { billed, error_code: code } = request as { billed: boolean; error_code: string };
    assert.deepEqual([billed, code], [false, 'engine_unavailable']);
  }
  const health = await management.call('GET', '/api/health');
  const [listed, ...more] = health.refused_requests as Record<string, unknown>[];
  assert.deepEqual(more, []);
  assert.deepEqual(
    [listed?.request_id, listed?.account_id, listed?.model, listed?.crashes],
    [ids[1], 'default', model, 2],
  );
});

test('a slow engine with progress is not killed', async () => {
  const { pid } = replicaOf('test/other');
  // The time between tokens is longer than `stallMs`.
  using wire = await send('test/other', { tokens: 2, tokenMs: 3500 });
  assert.match((await wire.response()).body, /"finish_reason":"stop"/);
  assert.equal(replicaOf('test/other').pid, pid);
});

function inFlight(id: string): number {
  const model = service.service.router.overview().find((each) => each.id === id);
  return model?.replicas.reduce((sum, replica) => sum + replica.inFlight, 0) ?? NaN;
}
