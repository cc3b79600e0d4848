import assert from 'node:assert/strict';
import { METHODS } from 'node:http';
import { after, test } from 'node:test';
import { scripted } from '../support/scripted-engine/directive.ts';
import type { ErrorCode } from '../../src/core/errors.ts';
import { chat, startService } from '../harness.ts';
import { assertError, exchange, requestText, Wire } from './wire.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

const body = JSON.stringify(chat(scripted({ text: 'Hello' })));
const length = `Content-Length: ${Buffer.byteLength(body)}`;
const key = `Authorization: Bearer ${service.key}`;
const CHUNKED = 'Transfer-Encoding: chunked';

/** Builds a chat request with exactly these headers. */
const request = (headers: readonly string[], version = 'HTTP/1.1', sent = body): string =>
  `POST /v1/chat/completions ${version}\r\n${headers.map((line) => `${line}\r\n`).join('')}\r\n${sent}`;

const chunks = `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n`;

const refused: Record<string, [text: string, code: ErrorCode]> = {
  'two hosts': [request(['Host: a', 'Host: b', key, length]), 'invalid_value'],
  'two keys': [request(['Host: a', key, key, length]), 'invalid_value'],
  'no host': [request([key, length]), 'invalid_value'],
  'another transfer coding': [
    request(['Host: a', key, 'Transfer-Encoding: gzip, chunked'], 'HTTP/1.1', chunks),
    'invalid_value',
  ],
  'two transfer codings': [request(['Host: a', key, CHUNKED, CHUNKED], 'HTTP/1.1', chunks), 'invalid_value'],
  'a transfer coding on HTTP/1.0': [request(['Host: a', key, CHUNKED], 'HTTP/1.0', chunks), 'invalid_value'],
  'a length and a transfer coding': [
    request(['Host: a', key, length, CHUNKED], 'HTTP/1.1', chunks),
    'invalid_value',
  ],
  'a compressed body': [
    request(['Host: a', key, length, 'Content-Encoding: gzip']),
    'unsupported_content_encoding',
  ],
  'an unknown expectation': [request(['Host: a', key, length, 'Expect: a-pony']), 'expectation_failed'],
  'HTTP/1.2': [request(['Host: a', key, length], 'HTTP/1.2'), 'unsupported_http_version'],
  'HTTP/3.0': [request(['Host: a', key, length], 'HTTP/3.0'), 'unsupported_http_version'],
  'HTTP/9.9': [request(['Host: a', key, length], 'HTTP/9.9'), 'unsupported_http_version'],
  'HTTP/2.0': [request(['Host: a', key, length], 'HTTP/2.0'), 'unsupported_http_version'],
  'HTTP/0.9': [request(['Host: a', key, length], 'HTTP/0.9'), 'unsupported_http_version'],
};

for (const [name, [text, code]] of Object.entries(refused)) {
  test(`a request with ${name} is refused`, async () => {
    assertError(await exchange(service.url, text), code);
  });
}

const served: Record<string, string> = {
  'HTTP/1.0 without a host': request([key, length], 'HTTP/1.0'),
  'a body in chunks': request(['Host: a', key, CHUNKED], 'HTTP/1.1', chunks),
  'an encoding that changes nothing': request(['Host: a', key, length, 'Content-Encoding: identity']),
};

for (const path of [
  '/v1/chat/completions/',
  '/v1/chat/completions?api-version=1',
  '/v1/chat/completions/?api-version=1',
  '/v1/ch%61t/completions',
  'http://a/v1/chat/completions',
]) {
  served[`the path ${path}`] = request(['Host: a', key, length]).replace('/v1/chat/completions', path);
}

for (const [name, text] of Object.entries(served)) {
  test(`a request with ${name} is served`, async () => {
    assert.equal((await exchange(service.url, text)).status, 200);
  });
}

test('a request that expects 100-continue gets it, and then its response', async () => {
  using wire = await Wire.open(service.url);
  wire.send(request(['Host: a', key, length, 'Expect: 100-continue'], 'HTTP/1.1', ''));
  assert.equal((await wire.head()).status, 100);
  assert.equal((await wire.send(body).response()).status, 200);
});

for (const method of METHODS.filter((name) => !['GET', 'HEAD', 'OPTIONS', 'POST'].includes(name))) {
  test(`${method} gets 405 or 404`, async () => {
    for (const [path, code] of [
      ['/v1/models', 'method_not_allowed'],
      ['/v1/nothing', method === 'CONNECT' ? 'method_not_allowed' : 'unknown_url'],
    ] as const) {
      for (const sent of ['', '{}']) {
        assertError(await exchange(service.url, requestText(`${method} ${path}`, {}, sent)), code);
      }
    }
  });
}
