/** The headers of every kind of answer: what a browser may do with it, and who may keep it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { buildConsole } from '../console/build.ts';
import { chat, startService, type TestService } from '../harness.ts';
import { firstOperator, type Browser } from './people.ts';

let service: TestService;
let operator: Browser;
before(async () => {
  buildConsole();
  service = await startService();
  operator = await firstOperator(service);
});
after(() => service[Symbol.asyncDispose]());

const HTML = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };

test('a page takes nothing but files of ours, no inline script or style, and stands in no frame', async () => {
  for (const path of [
    '/',
    '/keys',
    '/setup',
    '/operator/load',
    '/no/such/page',
    '/index.html',
    '/sign-in?to=/keys',
  ]) {
    const answer = await fetch(service.url + path, { headers: HTML });
    assert.equal(answer.status, 200, path);
    const policy = directives(answer);
    assert.deepEqual(policy.get('default-src'), ["'none'"], path);
    for (const source of ['script-src', 'style-src', 'connect-src', 'font-src', 'form-action'])
      assert.deepEqual(policy.get(source), ["'self'"], `${path}: ${source}`);
    for (const nothing of ['base-uri', 'frame-ancestors'])
      assert.deepEqual(policy.get(nothing), ["'none'"], path);
    assert.doesNotMatch([...policy.values()].flat().join(' '), /unsafe|\*|https?:/, path);
    assert.equal(answer.headers.get('x-frame-options'), 'DENY', path);
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff', path);
    assert.equal(answer.headers.get('referrer-policy'), 'no-referrer', path);
    assert.equal(answer.headers.get('cross-origin-opener-policy'), 'same-origin', path);
    const text = await answer.text();
    assert.doesNotMatch(text, /<script(?![^>]*\ssrc=)|<style|\son\w+=|style="/, path);
  }
});

test('a file of the console cannot be taken for a page, nor framed', async () => {
  for (const path of ['/theme.js', '/icon.svg', '/pressable.css']) {
    const answer = await fetch(service.url + path);
    assert.equal(answer.status, 200, path);
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff', path);
    assert.ok(directives(answer).has('frame-ancestors'), path);
    await answer.body?.cancel();
  }
});

test('no answer about accounts is kept, framed, guessed at or read by another origin', async () => {
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
    const what = `${status} ${text}`;
    assert.deepEqual(
      [...headers.keys()].filter((name) => name.startsWith('access-control')),
      [],
      what,
    );
    if (status === 204) continue;
    assert.equal(headers.get('content-type'), 'application/json', what);
    if (status >= 300) continue;
    assert.equal(headers.get('x-content-type-options'), 'nosniff', what);
    assert.equal(headers.get('cache-control'), 'no-store', what);
  }
});

test('generating is open to pages of every origin, by its key and without cookies', async () => {
  const answer = await fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}`, origin: 'https://app.test' },
    body: JSON.stringify(chat('hi', { stream: true })),
  });
  assert.equal(answer.headers.get('access-control-allow-origin'), '*');
  assert.equal(answer.headers.get('access-control-allow-credentials'), null);
  assert.deepEqual(answer.headers.getSetCookie(), []);
  assert.match(answer.headers.get('cache-control') ?? '', /no-/);
  await answer.text();
});

test('no answer tells what the service is made of', async () => {
  for (const path of ['/', '/api/session', '/v1/models', '/healthz', '/nothing', '/assets/nothing.js']) {
    const answer = await fetch(service.url + path, { headers: HTML });
    for (const name of ['server', 'x-powered-by', 'via']) assert.equal(answer.headers.get(name), null, path);
    assert.doesNotMatch(await answer.text(), /node_modules|\bat \w+ \(|\/src\//, path);
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
