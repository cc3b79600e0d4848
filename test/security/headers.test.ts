/** Security and cache headers of every kind of response. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { buildConsole } from '../console/build.ts';
import { chat, startService, type TestService } from '../harness.ts';
import { firstOperator, type CookieClient } from './cookie-client.ts';

let service: TestService;
let operator: CookieClient;
before(async () => {
  buildConsole();
  service = await startService();
  operator = await firstOperator(service);
});
after(() => service[Symbol.asyncDispose]());

const HTML = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

test('a page loads only files of the service, without inline scripts or styles, and cannot be framed', async () => {
  for (const path of [
    '/',
    '/keys',
    '/setup',
    '/operator/operations',
    '/no/such/page',
    '/index.html',
    '/sign-in?to=/keys',
  ]) {
    const response = await fetch(service.url + path, { headers: HTML });
    assert.equal(response.status, 200, path);
    const policy = directives(response);
    assert.deepEqual(policy.get('default-src'), ["'none'"], path);
    for (const source of ['script-src', 'style-src', 'connect-src', 'font-src', 'form-action'])
      assert.deepEqual(policy.get(source), ["'self'"], `${path}: ${source}`);
    for (const directive of ['base-uri', 'frame-ancestors'])
      assert.deepEqual(policy.get(directive), ["'none'"], path);
    assert.doesNotMatch([...policy.values()].flat().join(' '), /unsafe|\*|https?:/, path);
    assert.equal(response.headers.get('x-frame-options'), 'DENY', path);
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff', path);
    assert.equal(response.headers.get('referrer-policy'), 'no-referrer', path);
    assert.equal(response.headers.get('cross-origin-opener-policy'), 'same-origin', path);
    const text = await response.text();
    assert.doesNotMatch(text, /<script(?![^>]*\ssrc=)|<style|\son\w+=|style="/, path);
  }
});

test('a file of the console has a fixed type and cannot be framed', async () => {
  for (const path of ['/theme.js', '/icon.svg', '/pressable.css']) {
    const response = await fetch(service.url + path);
    assert.equal(response.status, 200, path);
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff', path);
    assert.ok(directives(response).has('frame-ancestors'), path);
    await response.body?.cancel();
  }
});

test('responses of the management API are not cached, sniffed or readable by other origins', async () => {
  const calls = [
    await operator.call('GET', '/api/session', { headers: { origin: 'https://evil.test' } }),
    await operator.call('GET', '/api/accounts', { headers: { origin: 'https://evil.test' } }),
    await operator.call('GET', '/api/keys/nothing'),
    await operator.call('GET', '/api/nothing'),
    await operator.call('POST', '/api/sign-in', { body: '{' }),
    await operator.call('POST', '/api/accounts', {
      body: { name: 'x' },
      headers: { origin: 'https://evil.test' },
    }),
    await operator.call('OPTIONS', '/api/accounts', {
      headers: { origin: 'https://evil.test', 'access-control-request-method': 'POST' },
    }),
  ];
  for (const { status, headers, text } of calls) {
    const context = `${status} ${text}`;
    assert.deepEqual(
      [...headers.keys()].filter((name) => name.startsWith('access-control')),
      [],
      context,
    );
    if (status === 204) continue;
    assert.equal(headers.get('content-type'), 'application/json', context);
    if (status >= 300) continue;
    assert.equal(headers.get('x-content-type-options'), 'nosniff', context);
    assert.equal(headers.get('cache-control'), 'no-store', context);
  }
});

test('pages of every origin can generate with a key, without cookies', async () => {
  const response = await fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, origin: 'https://app.test' },
    body: JSON.stringify(chat('hi', { stream: true })),
  });
  assert.equal(response.headers.get('access-control-allow-origin'), '*');
  assert.equal(response.headers.get('access-control-allow-credentials'), null);
  assert.deepEqual(response.headers.getSetCookie(), []);
  assert.match(response.headers.get('cache-control') ?? '', /no-/);
  await response.text();
});

test('responses do not reveal the software of the service', async () => {
  for (const path of ['/', '/api/session', '/v1/models', '/healthz', '/nothing', '/assets/nothing.js']) {
    const response = await fetch(service.url + path, { headers: HTML });
    for (const name of ['server', 'x-powered-by', 'via'])
      assert.equal(response.headers.get(name), null, path);
    assert.doesNotMatch(await response.text(), /node_modules|\bat \w+ \(|\/src\//, path);
  }
});

function directives({ headers }: Response): Map<string, string[]> {
  return new Map(
    (headers.get('content-security-policy') ?? '').split(';').map((directive) => {
      const [name = '', ...sources] = directive.trim().split(/\s+/);
      return [name, sources];
    }),
  );
}
