import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { getHeapStatistics } from 'node:v8';
import { ServiceError } from '../../src/core/errors.ts';
import { BodyMemory, BodyReservation } from '../../src/http/body.ts';
import { jsonBody, LARGE_JSON } from '../../src/json/json-thread.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { MODEL, untilIdle, chat, requestLog, scriptedYaml, startService, until } from '../harness.ts';
import { Management } from '../management.ts';
import { assertError, exchange, requestText, Wire } from './wire.ts';

/** Longer than any test. */
const FOREVER = 1_000_000;

const service = await startService(
  scriptedYaml({ contextTokens: 1_000_000 }, 'limits: {bodyBytes: 100000, bodyBytesInMemory: 800000}\n'),
);
after(() => service[Symbol.asyncDispose]());
const management = await Management.of(service);
const callers = await Promise.all(Array.from({ length: 5 }, () => management.caller()));
const keys = callers.map(({ key }) => ({ Authorization: `Bearer ${key}` }));
const [first = {}, second = {}, third = {}, fourth = {}, fifth = {}] = keys;

const CHAT = 'POST /v1/chat/completions';
const hello = (key: Record<string, string>) => requestText(CHAT, key, chat(scripted({ text: 'Hello' })));
const head = (key: Record<string, string>, bytes: number) =>
  requestText(CHAT, { ...key, 'Content-Length': String(bytes) });

/** Opens a connection that announces a body, and waits until the service has reserved its memory. */
async function announce(key: Record<string, string>, bytes: number): Promise<Wire> {
  const wire = await Wire.open(service.url);
  wire.send(`${head(key, bytes)}{`);
  // The service reads this later connection after the first one.
  await exchange(service.url, requestText('GET /healthz'));
  return wire;
}

const served = async (key: Record<string, string>) =>
  (await exchange(service.url, hello(key))).status === 200;

test('bodies above the share of an account are refused with 429 before they are read, until one is released', async () => {
  const half = await announce(first, 60_000);
  using more = await Wire.open(service.url);
  const refused = await more.send(head(first, 60_000)).response();
  assertError(refused, 'concurrent_body_bytes');
  assert.equal(refused.header('retry-after-ms'), '1000');
  assert.ok(await served(second), 'another account is not affected');
  half[Symbol.dispose]();
  await until(() => served(first));
  using whole = await announce(first, 100_000);
  assertError(await exchange(service.url, hello(first)), 'concurrent_body_bytes');
  whole[Symbol.dispose]();
  await until(() => served(first));
});

test('bodies above the total are refused with 503 before they are read, until one is released', async () => {
  const all = await Promise.all([first, second, third, fourth].map((key) => announce(key, 100_000)));
  const refused = await exchange(service.url, hello(fifth));
  assertError(refused, 'overloaded');
  assert.equal(refused.header('retry-after'), '1');
  for (const wire of all) wire[Symbol.dispose]();
  await until(() => served(fifth));
});

test('a body in chunks reserves memory as it grows', async () => {
  using chunked = await Wire.open(service.url);
  const start = requestText(CHAT, { ...first, 'Transfer-Encoding': 'chunked' });
  chunked.send(`${start}4000\r\n${'a'.repeat(0x4000)}\r\n`);
  await exchange(service.url, requestText('GET /healthz'));
  assert.ok(await served(first));
  using other = await announce(first, 60_000);
  chunked.send(`8000\r\n${'a'.repeat(0x8000)}\r\n`);
  assertError(await chunked.response(), 'concurrent_body_bytes');
  other.socket.destroy();
});

test('a body that was refused no longer counts, even if its connection stays open', async () => {
  using wire = await Wire.open(service.url);
  const largest = `${(100_000).toString(16)}\r\n${'a'.repeat(100_000)}\r\n`;
  wire.send(`${requestText(CHAT, { ...first, 'Transfer-Encoding': 'chunked' })}${largest}1\r\na\r\n`);
  assertError(await wire.response(), 'request_too_large');
  assert.ok(await served(first));
});

test('a body counts while its generation is running', async () => {
  await until(() => served(first));
  const before = requestLog(service).length;
  using wire = await Wire.open(service.url);
  const text = scripted({ tokenMs: FOREVER }) + ' '.repeat(50_000);
  wire.send(requestText(CHAT, first, chat(text, { stream: true })));
  assert.equal((await wire.head()).status, 200);
  assertError(await exchange(service.url, head(first, 60_000)), 'concurrent_body_bytes');
  wire.socket.destroy();
  await until(() => requestLog(service).length > before);
  await until(() => served(first));
  await untilIdle(service);
});

test('the body of a request to an unknown path is not stored', async () => {
  const unknown = requestText('POST /v1/nothing', { 'Content-Length': '90000' });
  const wires = await Promise.all(Array.from({ length: 9 }, () => Wire.open(service.url)));
  for (const wire of wires) assertError(await wire.send(unknown).response(), 'unknown_url');
  assert.ok(await served(first));
  for (const wire of wires) wire[Symbol.dispose]();
});

/** Reserves as much as possible for an account, in steps. Returns the bytes and the code of the refusal. */
function fill(memory: BodyMemory, account: string, bytes: number): { taken: number; code: string } {
  for (let taken = 0; ; taken += bytes) {
    try {
      new BodyReservation(memory, account).grow(bytes);
    } catch (error) {
      assert.ok(error instanceof ServiceError);
      return { taken, code: error.code };
    }
  }
}

test('an account uses at most a quarter of the memory, and less if others use it, so that the next one always finds some', () => {
  const memory = new BodyMemory({ bodyBytes: 1000, bodyBytesInMemory: 1_000_000 });
  assert.deepEqual(fill(memory, 'first', 1000), { taken: 250_000, code: 'concurrent_body_bytes' });
  for (let account = 1; account <= 10; account++) {
    const { taken, code } = fill(memory, String(account), 1000);
    assert.ok(taken >= 250_000 * 0.74 ** account, `account ${account} got ${taken} bytes`);
    assert.equal(code, 'concurrent_body_bytes');
  }
});

test('without a setting, and with any setting, bodies take at most a quarter of the heap of V8', () => {
  const heapBytes = getHeapStatistics().heap_size_limit;
  for (const bodyBytesInMemory of [undefined, 4 * heapBytes]) {
    const memory = new BodyMemory({ bodyBytes: 1000, ...(bodyBytesInMemory && { bodyBytesInMemory }) });
    const step = Math.ceil(heapBytes / 1000);
    let total = 0;
    for (let account = 0, code = ''; code !== 'overloaded'; account++) {
      const filled = fill(memory, String(account), step);
      total += filled.taken;
      ({ code } = filled);
    }
    assert.ok(total <= heapBytes / 4, `${total} bytes`);
  }
});

/** Returns what a body counts when it is parsed. */
async function counted(bytes: Uint8Array<ArrayBuffer>): Promise<number> {
  let size = 2 * bytes.length;
  const body = await jsonBody(bytes, undefined, { resize: (heapBytes) => (size = heapBytes) });
  body();
  return size;
}

test('a parsed body counts what its strings and values take, of which the characters of some take two bytes', async () => {
  const characters = 2 * LARGE_JSON;
  const text = (end: string) =>
    Buffer.from(JSON.stringify({ messages: [{ content: 'a'.repeat(characters) + end }] }));
  const near = (bytes: number, expected: number) =>
    assert.ok(Math.abs(bytes - expected) < 1000, `${bytes} bytes`);
  near(await counted(Uint8Array.from(text('é'))), characters);
  near(await counted(Uint8Array.from(text('😀'))), 2 * characters);
  const escaped = text('')
    .toString()
    .replace('aaaaaa', String.raw`\ud83d`);
  near(await counted(Uint8Array.from(Buffer.from(escaped))), 2 * characters);
  const objects = Buffer.from(JSON.stringify({ tools: Array.from({ length: 20_000 }, () => ({})) }));
  assert.ok((await counted(Uint8Array.from(objects))) > 20_000 * 56, 'an empty object takes 56 bytes');
});

test('a response counts while it is collected: one that does not fit is refused without a charge, in all protocols', async () => {
  const token = scripted({ text: 'word '.repeat(8000) });
  const chats = { model: MODEL, messages: [{ role: 'user', content: token }], max_tokens: 9000 };
  const requests = {
    '/v1/chat/completions': { ...chats, logprobs: true, top_logprobs: 20 },
    '/v1/completions': { model: MODEL, prompt: token, max_tokens: 9000, logprobs: 5 },
    '/v1/responses': {
      model: MODEL,
      input: token,
      include: ['message.output_text.logprobs'],
      top_logprobs: 20,
    },
  };
  for (const [path, body] of Object.entries(requests)) {
    const response = await exchange(service.url, requestText(`POST ${path}`, first, body));
    assertError(response, 'overloaded');
    const receipt = await management.receipt(response.header('x-request-id') ?? '');
    assert.deepEqual([receipt?.request.http_status, receipt?.request.billed], [503, false]);
  }
  const streamed = { ...requests['/v1/responses'], stream: true };
  const response = await exchange(service.url, requestText('POST /v1/responses', first, streamed));
  assert.match(response.body, /response\.failed.*server_is_overloaded/);
  await until(() => served(first));
});
