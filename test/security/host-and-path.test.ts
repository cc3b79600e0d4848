/**
 * Authorization depends only on the matched route. It does not depend on `Host`, on another spelling of the path, or on
 * a header with another path. (CVE-2026-49468: a gateway took the path that it checked from `Host`.)
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { API_ENDPOINTS } from '../../src/http/api/endpoints.ts';
import { scriptedYaml, startService, type TestService } from '../harness.ts';
import { exchange, requestText, type WireResponse } from '../http/wire.ts';

let service: TestService;
before(async () => {
  service = await startService(scriptedYaml());
});
after(() => service[Symbol.asyncDispose]());

/** Endpoints that need credentials. */
const GUARDED = API_ENDPOINTS.filter(({ access }) => access !== 'open').map(({ method, path, access }) => ({
  method,
  access,
  path: path.replaceAll(/\{\w+\}/g, 'default'),
}));

/** Hosts that give a concatenated URL another path, query, port or user. */
const HOSTS = [
  '',
  'sluice.test/healthz?',
  'sluice.test/healthz#',
  'sluice.test/v1/models/..',
  'sluice.test/assets/x?y=',
  'sluice.test?',
  'sluice.test#',
  'healthz@sluice.test',
  'sluice.test\\healthz',
  '/healthz',
  '127.0.0.1:1',
  'evil.test',
  '[::1',
  'sluice.test:healthz',
];

test('a crafted Host does not bypass authentication', async () => {
  for (const { method, path } of GUARDED) {
    for (const host of HOSTS) {
      assertRefused(await send(`${method} ${path}`, { Host: host }), `${method} ${path} with Host: ${host}`);
    }
  }
});

test('a crafted Host does not give a caller key access to operator endpoints', async () => {
  const headers = { Authorization: `Bearer ${service.key}` };
  for (const { method, path, access } of GUARDED) {
    if (access !== 'operator') continue;
    for (const host of HOSTS) {
      assertRefused(
        await send(`${method} ${path}`, { ...headers, Host: host }),
        `${method} ${path} with Host: ${host}`,
      );
    }
  }
});

test('headers cannot override the path or method of a request', async () => {
  for (const name of [
    'X-Original-URL',
    'X-Rewrite-URL',
    'X-Forwarded-Prefix',
    'X-Forwarded-Path',
    'X-Forwarded-URI',
  ]) {
    assertRefused(await send('GET /api/accounts', { [name]: '/healthz' }), name);
    const response = await send('GET /healthz', { [name]: '/api/accounts' });
    assert.deepEqual([response.status, JSON.parse(response.body)], [200, { status: 'ok' }], name);
  }
  for (const name of ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override']) {
    assertRefused(await send('GET /api/accounts', { [name]: 'OPTIONS' }), name);
  }
});

/** Spellings of a path that parts of a service might interpret differently. */
const SPELLINGS: readonly ((path: string) => string)[] = [
  (path) => `/${path}`,
  (path) => `//sluice.test${path}`,
  (path) => `/.${path}`,
  (path) => `/%2e${path}`,
  (path) => `/healthz/..${path}`,
  (path) => `/healthz/%2e%2e${path}`,
  (path) => `/healthz/..%2f${path.slice(1)}`,
  (path) => `/v1/..;${path}`,
  (path) => `/assets/..${path}`,
  (path) => `/assets/%2e%2e%2f${path.slice(1)}`,
  (path) => `${path}/`,
  (path) => `${path}//`,
  (path) => `${path};.css`,
  (path) => `${path}/..;/`,
  (path) => `${path}%00`,
  (path) => `${path}%20`,
  (path) => `${path}.json`,
  (path) => `${path}?/healthz`,
  (path) => `${path}%3f/healthz`,
  (path) => `${path}%23/healthz`,
  (path) => path.toUpperCase(),
  (path) => path.replace('/api/', '/%61pi/'),
  (path) => path.replace('/api/', '/api%2f'),
  (path) => path.replace('/api/', '/api//'),
  (path) => path.replace('/api/', '/api/./'),
  (path) => path.replace('/api/', '/api\\'),
  (path) => path.replace('/api/', '/API/'),
  (path) => path.replace('/api/', '/%2561pi/'),
  (path) => `http://sluice.test${path}`,
  (path) => `http://sluice.test/healthz/..${path}`,
];

test('no spelling of a path bypasses authentication', async () => {
  for (const { method, path } of GUARDED) {
    for (const spell of SPELLINGS) {
      assertRefused(await send(`${method} ${spell(path)}`), `${method} ${spell(path)}`);
    }
  }
});

test('no spelling of a path gives a caller key access to operator endpoints', async () => {
  const headers = { Authorization: `Bearer ${service.key}` };
  for (const { method, path, access } of GUARDED) {
    if (access !== 'operator') continue;
    for (const spell of SPELLINGS) {
      assertRefused(await send(`${method} ${spell(path)}`, headers), `${method} ${spell(path)}`);
    }
  }
});

test('no spelling of a path reaches files outside the console', async () => {
  const files = [
    'package.json',
    '../package.json',
    '../../package.json',
    '../src/http/console.ts',
    '../../../etc/passwd',
  ];
  const climbs: ((file: string) => string)[] = [
    (file) => `/${file}`,
    (file) => `/assets/${file}`,
    (file) => `/assets/${file.replaceAll('../', '%2e%2e/')}`,
    (file) => `/assets/${file.replaceAll('../', '..%2f')}`,
    (file) => `/assets/${file.replaceAll('../', '%2e%2e%2f')}`,
    (file) => `/assets/${file.replaceAll('../', '..%5c')}`,
    (file) => `/assets/${file.replaceAll('../', '....//')}`,
    (file) => `/assets/${file.replaceAll('../', '..%00/')}`,
  ];
  for (const file of files) {
    for (const climb of climbs) {
      const { status, body } = await send(`GET ${climb(file)}`);
      assert.ok(status >= 400, `${climb(file)}: ${status}`);
      assert.doesNotMatch(body, /root:|"dependencies"|fastifyStatic/);
    }
  }
});

test('requests with contradictory lengths are refused', async () => {
  const inner = 'GET /api/accounts HTTP/1.1\r\nHost: sluice.test\r\n\r\n';
  for (const framing of [
    `Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inner}`,
    `Content-Length: 0\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
    `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${inner}`,
    `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${inner}`,
    `Content-Length: +0\r\n\r\n${inner}`,
  ]) {
    const response = await exchange(
      service.url,
      `POST /v1/chat/completions HTTP/1.1\r\nHost: sluice.test\r\n${framing}`,
    );
    assert.equal(response.status, 400, framing);
  }
});

function send(start: string, headers: Record<string, string> = {}): Promise<WireResponse> {
  return exchange(
    service.url,
    requestText(start, { Connection: 'close', ...headers }),
    start.split(' ', 1)[0],
  );
}

/** Asserts that a request was refused. */
function assertRefused({ status, body }: WireResponse, context: string): void {
  assert.ok(status >= 400 && status < 500, `${context}: ${status} ${body}`);
}
