import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { scripted } from '../support/scripted-engine/directive.ts';
import { chat, MODEL, scriptedYaml, startService } from '../harness.ts';
import { assertError, exchange, requestText, Wire } from './wire.ts';

const MIB = 1024 * 1024;
const service = await startService(scriptedYaml());
after(() => service[Symbol.asyncDispose]());

const CHAT = 'POST /v1/chat/completions';
const key = { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json' };
const hello = JSON.stringify(chat(scripted({ text: 'Hello' })));
const good = requestText(CHAT, key, hello);

/** Builds a request head without the announced body. */
const announcing = (headers: Record<string, string>) => requestText(CHAT, headers);

async function assertServes(wire: Wire): Promise<void> {
  const response = await wire.send(good).response();
  assert.equal(response.status, 200);
}

test('a wrong key is refused before the body is sent', async () => {
  for (const [name, value] of [
    ['Content-Length', String(8 * MIB)],
    ['Transfer-Encoding', 'chunked'],
  ] as const) {
    const response = await exchange(
      service.url,
      announcing({ Authorization: 'Bearer wrong', [name]: value }),
    );
    assertError(response, 'invalid_api_key');
    assert.equal(response.header('www-authenticate'), 'Bearer');
  }
});

for (const size of [2 * MIB, 11 * MIB]) {
  const body = Buffer.alloc(size, ' ');

  test(`a wrong key with a body of ${size / MIB} MiB gets a 401, and the connection stays open`, async () => {
    using wire = await Wire.open(service.url);
    wire.send(announcing({ Authorization: 'Bearer wrong', 'Content-Length': String(size) })).send(body);
    assertError(await wire.response(), 'invalid_api_key');
    await assertServes(wire);
  });

  test(`a client library sees the 401 of a wrong key with a body of ${size / MIB} MiB`, async () => {
    const headers = { authorization: 'Bearer wrong' };
    const response = await fetch(`${service.url}/v1/chat/completions`, { method: 'POST', headers, body });
    assertError({ status: response.status, body: await response.text() }, 'invalid_api_key');
  });
}

test('a body of 11 MiB is refused with 413, with a Content-Length or in chunks', async () => {
  const body = Buffer.alloc(11 * MIB, ' ');
  using announced = await Wire.open(service.url);
  announced.send(announcing({ ...key, 'Content-Length': String(body.length) }));
  assertError(await announced.response(), 'request_too_large');

  using chunked = await Wire.open(service.url);
  chunked.send(announcing({ ...key, 'Transfer-Encoding': 'chunked' }));
  chunked
    .send(`${body.length.toString(16)}\r\n`)
    .send(body)
    .send('\r\n0\r\n\r\n');
  assertError(await chunked.response(), 'request_too_large');
  await assertServes(chunked);
});

test('a client library receives the 413 for a body of 11 MiB', async () => {
  const headers = { authorization: `Bearer ${service.key}` };
  const body = Buffer.alloc(11 * MIB, ' ');
  const response = await fetch(`${service.url}/v1/chat/completions`, { method: 'POST', headers, body });
  assertError({ status: response.status, body: await response.text() }, 'request_too_large');
});

test('a body of exactly 10 MiB is read', async () => {
  const response = await exchange(service.url, requestText(CHAT, key, hello.padEnd(10 * MIB)));
  assert.equal(response.status, 200);
});

test('a body that is not a JSON object is refused as invalid_json, and the connection stays open', async () => {
  using wire = await Wire.open(service.url);
  const bodies: [name: string, body: Buffer | string][] = [
    ['nothing', ''],
    ['half an object', '{"model":'],
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
    const response = await wire.response();
    assert.equal(response.status, 400, name);
    assertError(response, 'invalid_json');
  }
  await assertServes(wire);
});

test('JSON is accepted with any Content-Type', async () => {
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
    const response = await wire.send(requestText(CHAT, headers, hello)).response();
    assert.equal(response.status, 200, `type: ${type}`);
  }
});

test('a body in chunks of one byte is read', async () => {
  using wire = await Wire.open(service.url);
  wire.send(announcing({ ...key, 'Transfer-Encoding': 'chunked' }));
  for (const byte of Buffer.from(hello)) wire.send(Buffer.from([0x31, 0x0d, 0x0a, byte, 0x0d, 0x0a]));
  const response = await wire.send('0\r\n\r\n').response();
  assert.equal(response.status, 200);
});

test('pipelined requests get their responses in order', async () => {
  using wire = await Wire.open(service.url);
  const texts = ['first', 'second', 'third'];
  // The first takes longest.
  const requests = texts.map((text, index) =>
    requestText(CHAT, key, chat(scripted({ text, startMs: 40 - 20 * index }), { stream: index === 1 })),
  );
  wire.send(requests.join('') + requestText('GET /v1/models') + requestText('GET /nowhere'));
  for (const text of texts) assert.ok((await wire.response()).body.includes(text), text);
  assert.equal((await wire.response()).status, 200);
  assertError(await wire.response(), 'unknown_url');
});

test('a connection has at most 16 unanswered requests: it is closed after their responses', async () => {
  using wire = await Wire.open(service.url);
  const slow = requestText(CHAT, key, chat(scripted({ text: 'slow', startMs: 40 })));
  wire.send(slow + requestText('GET /v1/models').repeat(100));
  assert.ok((await wire.response()).body.includes('slow'));
  const responses = [];
  for (let n = 1; n < 16; n++) responses.push(await wire.response());
  assert.deepEqual(
    responses.map((response) => response.header('connection')),
    [...Array<string>(14).fill('keep-alive'), 'close'],
  );
  assert.equal(await wire.rest(), '');
});

test('the error for an unknown path names the right one if there is one', async () => {
  for (const [path, right] of [
    ['/chat/completions', '/v1/chat/completions'],
    ['/completions', '/v1/completions'],
    ['/models', '/v1/models'],
    ['/v1/v1/models', '/v1/models'],
    ['/api/v1/chat/completions', '/v1/chat/completions'],
    ['/v1/chat/completion', '/v1/chat/completions'],
    ['/v1/embedding', '/v1/embeddings'],
    ['/nowhere', null],
  ] as const) {
    const response = await exchange(service.url, requestText(`POST ${path}`));
    assertError(response, 'unknown_url');
    assert.equal(/Did you mean `(.+)`\?/.exec(response.body)?.[1] ?? null, right, path);
    assert.equal(response.header('x-should-retry'), 'false');
  }
});

test('a client that waits for 100 Continue gets it, and then its response', async () => {
  using wire = await Wire.open(service.url);
  const headers = { ...key, 'Content-Length': String(hello.length), Expect: '100-continue' };
  assert.equal((await wire.send(announcing(headers)).head()).statusLine, 'HTTP/1.1 100 Continue');
  assert.equal((await wire.send(hello).response()).status, 200);
});

test('invalid HTTP is refused with 400 in the usual error format, and the connection is closed', async () => {
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
    assertError(await wire.send(request).response(), 'invalid_value');
    assert.equal(await wire.rest(), '');
  }
});

test('an invalid chunk of a body is refused with 400', async () => {
  using wire = await Wire.open(service.url);
  wire.send(`${announcing({ ...key, 'Transfer-Encoding': 'chunked' })}not a length\r\n`);
  assertError(await wire.response(), 'invalid_value');
});

test('headers that are too large are refused with 431, whether one or many', async () => {
  const many = Array.from({ length: 2000 }, (_, index) => [`X-Header-${index}`, 'x']);
  for (const headers of [
    { 'X-Long': 'x'.repeat(20_000) },
    Object.fromEntries(many) as Record<string, string>,
  ]) {
    assertError(await exchange(service.url, requestText('GET /v1/models', headers)), 'headers_too_large');
  }
});

test('a path that is very long or cannot be decoded gets a response', async () => {
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

test('every response has a new request ID, even if the caller sends one', async () => {
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

test('the message of a 500 contains the request ID, and so does the log', async () => {
  const broken = chat(scripted({ error: 'internal_error' }));
  const response = await exchange(service.url, requestText(CHAT, key, broken));
  const id = response.header('x-request-id') ?? '';
  assertError(response, 'internal_error');
  assert.ok(response.body.includes(id));
  assert.ok(service.log().includes(id));
});

test('a client request ID is logged if it is short and printable', async () => {
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

test('what had no effect in a request is logged', async () => {
  const noted = requestText(CHAT, key, chat('hello', { unheard_of: 1 }));
  const response = await exchange(service.url, noted);
  assert.equal(response.header('x-sluice-notes'), 'unheard_of ignored (unknown field)');
  assert.match(service.log(), /"notes":"unheard_of ignored \(unknown field\)"/);
});

test('the Bearer scheme is accepted in any case', async () => {
  const response = await exchange(
    service.url,
    requestText(CHAT, { Authorization: `bearer ${service.key}` }, hello),
  );
  assert.equal(response.status, 200);
  assert.ok(response.body.includes(MODEL));
});
