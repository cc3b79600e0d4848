import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { scripted } from '../../src/engine/scripted/options.ts';
import { chat, MODEL, scriptedYaml, startService } from '../harness.ts';
import { assertError, exchange, requestText, Wire } from './wire.ts';

const MIB = 1024 * 1024;
const service = await startService(scriptedYaml());
after(() => service[Symbol.asyncDispose]());

const CHAT = 'POST /v1/chat/completions';
const key = { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json' };
const hello = JSON.stringify(chat(scripted({ text: 'Hello' })));
const good = requestText(CHAT, key, hello);

/** A request head that announces a body which does not follow. */
const announcing = (headers: Record<string, string>) => requestText(CHAT, headers);

async function assertAnswers(wire: Wire): Promise<void> {
  const answer = await wire.send(good).answer();
  assert.equal(answer.status, 200);
}

test('a wrong key is refused before any of the body has been sent', async () => {
  for (const [name, value] of [
    ['Content-Length', String(8 * MIB)],
    ['Transfer-Encoding', 'chunked'],
  ] as const) {
    const answer = await exchange(service.url, announcing({ Authorization: 'Bearer wrong', [name]: value }));
    assertError(answer, 'invalid_api_key');
    assert.equal(answer.header('www-authenticate'), 'Bearer');
  }
});

for (const size of [2 * MIB, 11 * MIB]) {
  const body = Buffer.alloc(size, ' ');

  test(`a wrong key with a body of ${size / MIB} MiB gets its 401 to read, and the connection goes on`, async () => {
    using wire = await Wire.open(service.url);
    wire.send(announcing({ Authorization: 'Bearer wrong', 'Content-Length': String(size) })).send(body);
    assertError(await wire.answer(), 'invalid_api_key');
    await assertAnswers(wire);
  });

  test(`a client library sees the 401 of a wrong key with a body of ${size / MIB} MiB`, async () => {
    const headers = { authorization: 'Bearer wrong' };
    const answer = await fetch(`${service.url}/v1/chat/completions`, { method: 'POST', headers, body });
    assertError({ status: answer.status, body: await answer.text() }, 'invalid_api_key');
  });
}

test('a body of 11 MiB is 413, announced or in chunks', async () => {
  const body = Buffer.alloc(11 * MIB, ' ');
  using announced = await Wire.open(service.url);
  announced.send(announcing({ ...key, 'Content-Length': String(body.length) }));
  assertError(await announced.answer(), 'request_too_large');

  using chunked = await Wire.open(service.url);
  chunked.send(announcing({ ...key, 'Transfer-Encoding': 'chunked' }));
  chunked
    .send(`${body.length.toString(16)}\r\n`)
    .send(body)
    .send('\r\n0\r\n\r\n');
  assertError(await chunked.answer(), 'request_too_large');
  await assertAnswers(chunked);
});

test('a client library sees the 413 of a body of 11 MiB', async () => {
  const headers = { authorization: `Bearer ${service.key}` };
  const body = Buffer.alloc(11 * MIB, ' ');
  const answer = await fetch(`${service.url}/v1/chat/completions`, { method: 'POST', headers, body });
  assertError({ status: answer.status, body: await answer.text() }, 'request_too_large');
});

test('a body of 10 MiB to the byte is read', async () => {
  const answer = await exchange(service.url, requestText(CHAT, key, hello.padEnd(10 * MIB)));
  assert.equal(answer.status, 200);
});

test('a body that is no JSON object is invalid_json, and the connection goes on', async () => {
  using wire = await Wire.open(service.url);
  const bodies: [name: string, body: Buffer | string][] = [
    ['nothing', ''],
    ['half of an object', '{"model":'],
    ['an array', '[]'],
    ['a string', '"hello"'],
    ['null', 'null'],
    ['two objects', '{}{}'],
    ['not UTF-8', Buffer.concat([Buffer.from('{"model":"'), Buffer.from([0xff, 0xfe]), Buffer.from('"}')])],
    ['a million open brackets', '['.repeat(1_000_000)],
    ['deep objects', `${'{"a":'.repeat(100)}1${'}'.repeat(100)}`],
    ['a form', 'model=test&prompt=x'],
  ];
  for (const [name, body] of bodies) {
    wire.send(announcing({ ...key, 'Content-Length': String(Buffer.byteLength(body)) })).send(body);
    const answer = await wire.answer();
    assert.equal(answer.status, 400, name);
    assertError(answer, 'invalid_json');
  }
  await assertAnswers(wire);
});

test('JSON is taken whatever its type claims', async () => {
  using wire = await Wire.open(service.url);
  const types = [
    '',
    'application/json; charset=utf-8',
    'text/plain',
    'json',
    ';;',
    'multipart/form-data; boundary=x',
  ];
  for (const type of types) {
    const headers = { Authorization: key.Authorization, ...(type === '' ? {} : { 'Content-Type': type }) };
    const answer = await wire.send(requestText(CHAT, headers, hello)).answer();
    assert.equal(answer.status, 200, `type: ${type}`);
  }
});

test('a body in chunks is read, wherever it is cut', async () => {
  using wire = await Wire.open(service.url);
  wire.send(announcing({ ...key, 'Transfer-Encoding': 'chunked' }));
  for (const byte of Buffer.from(hello)) wire.send(Buffer.from([0x31, 0x0d, 0x0a, byte, 0x0d, 0x0a]));
  const answer = await wire.send('0\r\n\r\n').answer();
  assert.equal(answer.status, 200);
});

test('requests in a pipeline are answered in their order', async () => {
  using wire = await Wire.open(service.url);
  const texts = ['first', 'second', 'third'];
  // The first takes longest.
  const requests = texts.map((text, index) =>
    requestText(CHAT, key, chat(scripted({ text, startMs: 40 - 20 * index }), { stream: index === 1 })),
  );
  wire.send(requests.join('') + requestText('GET /v1/models') + requestText('GET /nowhere'));
  for (const text of texts) assert.ok((await wire.answer()).body.includes(text), text);
  assert.equal((await wire.answer()).status, 200);
  assertError(await wire.answer(), 'unknown_url');
});

test('a client that waits for 100 Continue gets it, and then its answer', async () => {
  using wire = await Wire.open(service.url);
  const headers = { ...key, 'Content-Length': String(hello.length), Expect: '100-continue' };
  assert.equal((await wire.send(announcing(headers)).head()).statusLine, 'HTTP/1.1 100 Continue');
  assert.equal((await wire.send(hello).answer()).status, 200);
});

test('what is not HTTP is 400 in the shape of every error, and the connection ends', async () => {
  const requests = [
    'hello\r\n\r\n',
    'GET /v1/models HTTP/1.1\r\nBad Header: x\r\n\r\n',
    'GET /v1/models HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n',
    `${CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n`,
    `${CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    `${CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n`,
  ];
  for (const request of requests) {
    using wire = await Wire.open(service.url);
    assertError(await wire.send(request).answer(), 'invalid_value');
    assert.equal(await wire.rest(), '');
  }
});

test('a chunk of a body that is not HTTP ends the connection with 400', async () => {
  using wire = await Wire.open(service.url);
  wire.send(`${announcing({ ...key, 'Transfer-Encoding': 'chunked' })}not a length\r\n`);
  assertError(await wire.answer(), 'invalid_value');
});

test('headers beyond their bound are 431, in one header or in many', async () => {
  const many = Array.from({ length: 2000 }, (_, index) => [`X-Header-${index}`, 'x']);
  for (const headers of [
    { 'X-Long': 'x'.repeat(20_000) },
    Object.fromEntries(many) as Record<string, string>,
  ]) {
    assertError(await exchange(service.url, requestText('GET /v1/models', headers)), 'headers_too_large');
  }
});

test('a path that cannot be decoded, or has no end, is answered', async () => {
  assertError(await exchange(service.url, requestText('GET /v1/models/%')), 'unknown_url');
  assertError(
    await exchange(service.url, requestText(`GET /v1/models/${'a'.repeat(9000)}`)),
    'model_not_found',
    'model',
  );
  assertError(await exchange(service.url, requestText(`GET /${'a'.repeat(9000)}`)), 'unknown_url');
  assert.equal((await exchange(service.url, requestText('GET /v1/models/test%2Fscripted'))).status, 200);
  assert.equal((await exchange(service.url, requestText('GET http://sluice.test/v1/models/'))).status, 200);
});

test('every answer has a request id of ours, whatever the caller sends as one', async () => {
  const sent = { ...key, 'X-Request-Id': 'mine', 'X-Client-Request-Id': 'mine-too' };
  const ids = new Set<string>();
  for (const request of [
    requestText(CHAT, sent, hello),
    requestText('GET /nowhere', sent),
    'nonsense\r\n\r\n',
  ]) {
    const id = (await exchange(service.url, request)).header('x-request-id') ?? '';
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    ids.add(id);
  }
  assert.equal(ids.size, 3);
});

test("a 500's message has the request id of its header, and the log has both", async () => {
  const broken = chat(scripted({ error: 'internal_error' }));
  const answer = await exchange(service.url, requestText(CHAT, key, broken));
  const id = answer.header('x-request-id') ?? '';
  assertError(answer, 'internal_error');
  assert.ok(answer.body.includes(id));
  assert.ok(service.log().includes(id));
});

test('what a caller calls its request is in the log, if it is short and printable', async () => {
  const requests = [
    ['kept-id-1', 200],
    ['x'.repeat(513), 200],
    ['caf\u00e9-id', 200],
  ] as const;
  for (const [id, status] of requests) {
    const bytes = Buffer.from(requestText(CHAT, { ...key, 'X-Client-Request-Id': id }, hello), 'latin1');
    assert.equal((await exchange(service.url, bytes)).status, status);
  }
  assert.match(service.log(), /"clientRequestId":"kept-id-1"/);
  assert.doesNotMatch(service.log(), /x{513}|caf.-id/);
});

test('the scheme of a key is read in any case', async () => {
  const answer = await exchange(
    service.url,
    requestText(CHAT, { Authorization: `bearer ${service.key}` }, hello),
  );
  assert.equal(answer.status, 200);
  assert.ok(answer.body.includes(MODEL));
});
