/**
 * What decides who may is the route that answers, and nothing else: neither what `Host` claims (CVE-2026-49468: a
 * gateway took the path to check from it), nor another spelling of the path, nor a header that names another one.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { API_ENDPOINTS } from '../../src/http/api/endpoints.ts';
import { scriptedYaml, startService, type TestService } from '../harness.ts';
import { exchange, requestText, type WireAnswer } from '../http/wire.ts';

let service: TestService;
before(async () => {
  service = await startService(scriptedYaml());
});
after(() => service[Symbol.asyncDispose]());

/** Endpoints that are not open to everybody, as requests. */
const GUARDED = API_ENDPOINTS.filter(({ access }) => access !== 'open').map(({ method, path, access }) => ({
  method,
  access,
  path: path.replaceAll(/\{\w+\}/g, 'default'),
}));

/** Hosts from which a URL put together would have another path, query, port or user. */
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

test('a crafted Host opens no endpoint to nobody', async () => {
  for (const { method, path } of GUARDED) {
    for (const host of HOSTS) {
      refused(await ask(`${method} ${path}`, { Host: host }), `${method} ${path} with Host: ${host}`);
    }
  }
});

test("a crafted Host opens no operator's endpoint to a caller's key", async () => {
  const headers = { Authorization: `Bearer ${service.key}` };
  for (const { method, path, access } of GUARDED) {
    if (access !== 'operator') continue;
    for (const host of HOSTS) {
      refused(
        await ask(`${method} ${path}`, { ...headers, Host: host }),
        `${method} ${path} with Host: ${host}`,
      );
    }
  }
});

test('no header names another path or method than that of the request', async () => {
  for (const name of [
    'X-Original-URL',
    'X-Rewrite-URL',
    'X-Forwarded-Prefix',
    'X-Forwarded-Path',
    'X-Forwarded-URI',
  ]) {
    refused(await ask('GET /api/accounts', { [name]: '/healthz' }), name);
    const answer = await ask('GET /healthz', { [name]: '/api/accounts' });
    assert.deepEqual([answer.status, JSON.parse(answer.body)], [200, { status: 'ok' }], name);
  }
  for (const name of ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override']) {
    refused(await ask('GET /api/accounts', { [name]: 'OPTIONS' }), name);
  }
});

/** The same path as somebody writes it who hopes that one part of a service reads it in another way than the next. */
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

test('no spelling of a path opens an endpoint to nobody', async () => {
  for (const { method, path } of GUARDED) {
    for (const spell of SPELLINGS) {
      refused(await ask(`${method} ${spell(path)}`), `${method} ${spell(path)}`);
    }
  }
});

test("no spelling of a path opens an operator's endpoint to a caller's key", async () => {
  const headers = { Authorization: `Bearer ${service.key}` };
  for (const { method, path, access } of GUARDED) {
    if (access !== 'operator') continue;
    for (const spell of SPELLINGS) {
      refused(await ask(`${method} ${spell(path)}`, headers), `${method} ${spell(path)}`);
    }
  }
});

test('no spelling of a path reaches a file beside the console', async () => {
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
      const { status, body } = await ask(`GET ${climb(file)}`);
      assert.ok(status >= 400, `${climb(file)}: ${status}`);
      assert.doesNotMatch(body, /root:|"dependencies"|fastifyStatic/);
    }
  }
});

test('two requests in one, by lengths that contradict each other, are not taken apart', async () => {
  const inner = 'GET /api/accounts HTTP/1.1\r\nHost: sluice.test\r\n\r\n';
  for (const framing of [
    `Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${inner}`,
    `Content-Length: 0\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
    `Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n${inner}`,
    `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${inner}`,
    `Content-Length: +0\r\n\r\n${inner}`,
  ]) {
    const answer = await exchange(
      service.url,
      `POST /v1/chat/completions HTTP/1.1\r\nHost: sluice.test\r\n${framing}`,
    );
    assert.equal(answer.status, 400, framing);
  }
});

function ask(start: string, headers: Record<string, string> = {}): Promise<WireAnswer> {
  // An answer to HTTP/1.1 without a Host at all is Node's own.
  return exchange(
    service.url,
    requestText(start, { Connection: 'close', ...headers }),
    start.split(' ', 1)[0],
  );
}

/** Neither an answer nor a way to one. */
function refused({ status, body }: WireAnswer, what: string): void {
  assert.ok(status >= 400 && status < 500, `${what}: ${status} ${body}`);
}
