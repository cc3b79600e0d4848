import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { after, test } from 'node:test';
import { scripted } from '../support/scripted-engine/directive.ts';
import { HttpReplica } from '../replicas/replicas.ts';
import { ManualClock, MODEL, openService, scriptedYaml, startService, until } from '../harness.ts';
import { Management } from '../management.ts';
import { exchange, requestText, Wire, type WireResponse } from './wire.ts';

const PLANS = `plans:
  open: {}
  requests: {requestsPerMinute: 2}
  others: {requestsInFlight: 1, tokensPerMinute: 10, tokensPerDay: 210, models: {${MODEL}: {requestsInFlight: 1}}}
defaultPlan: open
`;
const it = await startService(scriptedYaml({ contextTokens: 200 }, PLANS), {}, { clock: new ManualClock() });
after(() => it[Symbol.asyncDispose]());
const manager = await Management.of(it);

const MESSAGES = 'POST /v1/messages';
const COUNT = 'POST /v1/messages/count_tokens?beta=true';
const user = (content: unknown) => ({ role: 'user', content });

async function post(
  start: string,
  key: string,
  fields: object,
  headers: Record<string, string> = {},
  url = it.url,
): Promise<WireResponse> {
  const body = { model: MODEL, messages: [user('Count these words.')], ...fields };
  return await exchange(url, requestText(start, { 'x-api-key': key, ...headers }, body));
}

const countOf = ({ body }: WireResponse): unknown =>
  (JSON.parse(body) as { input_tokens: unknown }).input_tokens;

const errorOf = ({ status, body }: WireResponse): unknown[] => {
  const { type, error } = JSON.parse(body) as { type: string; error: { type: string } };
  return [status, type, error.type];
};

test('the count is that of a message with the same system prompt, messages and tools', async () => {
  const { key } = await manager.caller();
  const fields = {
    system: 'Be brief.',
    messages: [
      user('What time is it?'),
      { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'time', input: { zone: 'UTC' } }] },
      user([{ type: 'tool_result', tool_use_id: '1', content: '12:00' }]),
    ],
    tools: [{ name: 'time', description: 'The time.', input_schema: { type: 'object' } }],
  };
  const message = await post(MESSAGES, key, { ...fields, max_tokens: 1 });
  const { usage } = JSON.parse(message.body) as { usage: { input_tokens: number } };
  const counted = await post(COUNT, key, fields);
  assert.equal(counted.status, 200, counted.body);
  assert.equal(countOf(counted), usage.input_tokens);
  assert.equal(counted.header('x-sluice-notes'), null);
});

test('a conversation that ends with the assistant is counted, though nothing could follow it', async () => {
  const { key } = await manager.caller();
  const messages = [
    user('a'),
    { role: 'assistant', content: [{ type: 'tool_use', id: '1', name: 'f', input: {} }] },
  ];
  for (const list of [messages, [user('a'), { role: 'assistant', content: 'b' }], [messages[1]]]) {
    const counted = await post(COUNT, key, { messages: list });
    assert.equal(counted.status, 200, counted.body);
  }
});

test('what has no effect is noted, and refused if the request is strict', async () => {
  const { key } = await manager.caller();
  const fields = { tools: [{ type: 'web_search_20250305', name: 'web_search' }] };
  const counted = await post(COUNT, key, fields);
  assert.equal(counted.header('x-sluice-notes'), 'tools[0] ignored (web_search_20250305)');
  const strict = await post(COUNT, key, fields, { 'x-sluice-strict': 'true' });
  assert.deepEqual(errorOf(strict), [400, 'error', 'invalid_request_error']);
});

test('counts are limited by requests per minute, and cost nothing', async () => {
  const { key, accountId } = await manager.caller('requests');
  for (const left of ['1', '0']) {
    const counted = await post(COUNT, key, {});
    assert.equal(counted.status, 200, counted.body);
    assert.equal(counted.header('anthropic-ratelimit-requests-remaining'), left);
    assert.equal(counted.header('anthropic-ratelimit-tokens-limit'), null);
  }
  const denied = await post(COUNT, key, {});
  assert.deepEqual(errorOf(denied), [429, 'error', 'rate_limit_error']);
  assert.match(denied.header('retry-after') ?? '', /^\d+$/);
  assert.equal((await post(MESSAGES, key, { max_tokens: 1 })).status, 429);
  const { data } = await manager.call('GET', `/api/requests?account_id=${accountId}`);
  assert.deepEqual(data, []);
});

test('no other limit applies to counts, and they do not count against it', async () => {
  const { key } = await manager.caller('others');
  const used = await post(MESSAGES, key, { max_tokens: 20, messages: [user(scripted({ tokens: 20 }))] });
  assert.equal(used.status, 200, used.body);
  const denied = await post(MESSAGES, key, { max_tokens: 1 });
  assert.equal(denied.status, 429);
  for (let count = 0; count < 5; count++) {
    const counted = await post(COUNT, key, {});
    assert.equal(counted.status, 200, counted.body);
  }
  const remaining = (response: WireResponse) => response.header('anthropic-ratelimit-tokens-remaining');
  assert.equal(remaining(await post(MESSAGES, key, { max_tokens: 1 })), remaining(denied));
});

test('counts need no place among the concurrent requests', async () => {
  const single = await manager.caller('others');
  using running = await Wire.open(it.url);
  const endless = {
    model: MODEL,
    max_tokens: 2,
    stream: true,
    messages: [user(scripted({ tokenMs: 1_000_000 }))],
  };
  running.send(requestText(MESSAGES, { 'x-api-key': single.key }, endless));
  assert.equal((await running.head()).status, 200);
  assert.equal((await post(COUNT, single.key, {})).status, 200);
});

test('without an engine that is ready, the count is an estimate that is not too low', async () => {
  await using loading = await openService(scriptedYaml({ loadMs: 2_000_000_000 }));
  const { key } = await loading.service.keys.create({ name: 'test' });
  const counted = await post(COUNT, key.reveal(), {}, {}, loading.url);
  assert.equal(counted.status, 200, counted.body);
  assert.ok(Number(countOf(counted)) > 'Count these words.'.length);
  assert.equal(counted.header('x-sluice-notes'), 'input_tokens estimated, and not below the count');
});

test('a count has a line in the log, without the text', async () => {
  const { key, keyId, accountId } = await manager.caller();
  const headers = { 'X-Client-Request-Id': 'counted' };
  const counted = await post(
    COUNT,
    key,
    { messages: [user('A secret text.')], thread: null, speed: 1 },
    headers,
  );
  await post(COUNT, key, { messages: [user('a '.repeat(1000))] }, headers);
  await until(() => linesOf('counted').length === 2);
  const [exact, estimated] = linesOf('counted');
  assert.ok(exact !== undefined && estimated !== undefined);
  const { requestId, clientRequestId, path, ip, model, notes, promptTokens, totalMs } = exact;
  assert.deepEqual([requestId, clientRequestId], [counted.header('request-id'), 'counted']);
  assert.deepEqual([path, ip, model], ['/v1/messages/count_tokens', '127.0.0.1', MODEL]);
  assert.deepEqual([exact['key'], exact['account']], [keyId, accountId]);
  assert.deepEqual([promptTokens, notes], [countOf(counted), 'speed ignored']);
  assert.equal(typeof totalMs, 'number');
  assert.deepEqual([exact['exact'], estimated['exact']], [true, false]);
  assert.ok(!it.log().includes('secret text'));
});

/** The lines about counts with this ID of the client. */
const linesOf = (clientRequestId: string): Record<string, unknown>[] =>
  it
    .log()
    .split('\n')
    .filter((line) => line.includes('"message":"token count"') && line.includes(`"${clientRequestId}"`))
    .map((line) => JSON.parse(line) as Record<string, unknown>);

test('a client that disconnects during a count ends it, which is no failure of the service', async () => {
  const counts = new EventEmitter();
  await using replica = await HttpReplica.listen((response, { method }) => {
    if (method === 'GET') response.end('{}');
    else {
      response.once('close', () => counts.emit('closed'));
      counts.emit('begun');
    }
  });
  const models = [{ id: MODEL, contextTokens: 4096, replicas: [{ url: replica.url, dialect: 'vllm' }] }];
  await using slow = await startService(JSON.stringify({ models }));
  const closed = once(counts, 'closed');
  {
    using wire = await Wire.open(slow.url);
    const begun = once(counts, 'begun');
    wire.send(requestText(COUNT, { 'x-api-key': slow.key }, { model: MODEL, messages: [user('a')] }));
    await begun;
  }
  await closed;
  await until(() => slow.log().includes('"code":"request_timeout"'));
  assert.ok(!slow.log().includes('unexpected error'), slow.log());
});

test('faults have the form of the API', async () => {
  const { key } = await manager.caller();
  const other = await manager.caller(null, { allowed_models: ['test/other'] });
  assert.deepEqual(errorOf(await post(COUNT, 'sk-sluice-wrong', {})), [401, 'error', 'authentication_error']);
  assert.deepEqual(errorOf(await post(COUNT, other.key, {})), [403, 'error', 'permission_error']);
  assert.deepEqual(errorOf(await post(COUNT, key, { model: 'a' })), [404, 'error', 'not_found_error']);
  assert.deepEqual(errorOf(await post(COUNT, key, { messages: 1 })), [400, 'error', 'invalid_request_error']);
  const request = (body: string) => exchange(it.url, requestText(COUNT, { 'x-api-key': key }, body));
  assert.deepEqual(errorOf(await request('{"model":')), [400, 'error', 'invalid_request_error']);
  assert.deepEqual(errorOf(await request('')), [400, 'error', 'invalid_request_error']);
});

test('a key that is revoked while its body arrives gets no count', async () => {
  const { key, keyId } = await manager.caller();
  using wire = await Wire.open(it.url);
  const body = JSON.stringify({ model: MODEL, messages: [user('a')] });
  const headers = { 'x-api-key': key, 'Content-Length': String(body.length), Expect: '100-continue' };
  wire.send(requestText(COUNT, headers));
  assert.equal((await wire.response()).status, 100);
  await it.service.keys.revoke(keyId);
  wire.send(body);
  assert.deepEqual(errorOf(await wire.response()), [401, 'error', 'authentication_error']);
});
