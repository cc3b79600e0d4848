/** Session cookies: attributes, lifetime, and requests from other origins. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startService, type TestService } from '../harness.ts';
import { OPERATOR, setupToken } from '../operator.ts';
import { CookieClient, firstOperator, signIn } from './cookie-client.ts';

let service: TestService;
let operator: CookieClient;
before(async () => {
  service = await startService();
  operator = await firstOperator(service);
});
after(() => service[Symbol.asyncDispose]());

test('a session cookie is HttpOnly, SameSite, and limited to its host', async () => {
  const browser = await signIn(service.url);
  assert.ok(browser.setCookies.length > 0);
  for (const line of browser.setCookies) {
    assert.match(line, /; HttpOnly(;|$)/i, line);
    assert.match(line, /; SameSite=(Lax|Strict)(;|$)/i, line);
    assert.match(line, /; Path=\/(;|$)/i, line);
    assert.doesNotMatch(line, /; Domain=/i, line);
  }
});

test('with HTTPS the cookie is Secure and has a host prefix', async () => {
  const secure = await startService(JSON.stringify({ publicUrl: 'https://sluice.test', models: [scripted] }));
  try {
    const address = { url: secure.service.localUrl, home: secure.home };
    const browser = new CookieClient(address.url);
    await browser.ok('POST', '/api/setup', {
      body: { token: await setupToken(address), ...OPERATOR },
      headers: { origin: 'https://sluice.test' },
    });
    for (const line of browser.setCookies) {
      assert.match(line, /^__(Host|Secure)-/, line);
      assert.match(line, /; Secure(;|$)/i, line);
    }
  } finally {
    await secure[Symbol.asyncDispose]();
  }
});

test('each sign-in creates a new session, even in a browser that already has one', async () => {
  const browser = await signIn(service.url);
  const before = browser.copy();
  await browser.ok('POST', '/api/sign-in', { body: OPERATOR_SIGN_IN });
  assert.notEqual(browser.cookieHeader, before.cookieHeader);
  const planted = new CookieClient(service.url);
  for (const [name] of browser.cookies) planted.cookies.set(name, 'a'.repeat(32));
  await planted.ok('POST', '/api/sign-in', { body: OPERATOR_SIGN_IN });
  assert.ok(!planted.cookieHeader.includes('a'.repeat(32)));
});

test('signing out ends the session, not only the cookie', async () => {
  const browser = await signIn(service.url);
  const stolen = browser.copy();
  await browser.ok('POST', '/api/sign-out');
  assert.equal(browser.cookies.size, 0);
  assert.equal(await stolen.isSignedIn(), false);
});

test('a new password ends every other session and renews this one', async () => {
  const browser = await signIn(service.url);
  const [elsewhere, stolen] = [await signIn(service.url), browser.copy()];
  const change = { current_password: OPERATOR.password, new_password: `${OPERATOR.password} 2` };
  await browser.ok('POST', '/api/me/password', { body: change });
  assert.equal(await browser.isSignedIn(), true);
  assert.equal(await elsewhere.isSignedIn(), false);
  assert.equal(await stolen.isSignedIn(), false, 'the cookie from before the change no longer works');
  assert.equal(await operator.isSignedIn(), false);
  await browser.ok('POST', '/api/me/password', {
    body: { current_password: change.new_password, new_password: OPERATOR.password },
  });
  operator = browser;
});

test('no response body contains the token of a session', async () => {
  const browser = await signIn(service.url);
  const secrets = [...browser.cookies.values()].flatMap(
    (value) => decodeURIComponent(value).split('.')[0] ?? [],
  );
  for (const path of ['/api/session', '/api/me/sessions', '/api/users', '/api/audit']) {
    const { text } = await browser.ok('GET', path);
    for (const secret of secrets) assert.ok(!text.includes(secret), path);
  }
});

test('a session can be ended from another one', async () => {
  const [here, there] = [await signIn(service.url), await signIn(service.url)];
  const { data } = (await there.ok('GET', '/api/me/sessions')).body as unknown as SessionPage;
  const current = data.find((session) => session.current);
  assert.ok(current);
  await here.ok('DELETE', `/api/me/sessions/${current.id}`);
  assert.equal(await there.isSignedIn(), false);
});

/** Headers of requests that other sites can make a browser send. */
const FOREIGN: readonly (readonly [source: string, headers: Record<string, string>])[] = [
  ['another origin', { origin: 'https://evil.test' }],
  ['a sandboxed frame', { origin: 'null' }],
  ['an origin that starts like ours', { origin: 'SERVICE.evil.test' }],
  ['an origin that ends like ours', { origin: 'http://evil.SERVICE' }],
  ['our origin as the user name of another', { origin: 'http://SERVICE@evil.test' }],
  ['our host with another scheme', { origin: 'https://SERVICE' }],
  ['another port of our host', { origin: 'http://127.0.0.1:1' }],
  ['a cross-site request', { 'sec-fetch-site': 'cross-site' }],
  ['a same-site request', { 'sec-fetch-site': 'same-site' }],
  [
    'an origin that matches X-Forwarded-Host',
    { origin: 'https://evil.test', 'x-forwarded-host': 'evil.test' },
  ],
  ['our referrer without an origin', { origin: '', referer: 'http://SERVICE/keys' }],
];

for (const [source, headers] of FOREIGN) {
  test(`a change with a session cookie is refused if it comes from ${source}`, async () => {
    const host = new URL(service.url).host;
    const filled = Object.entries(headers).map(([name, value]) => [name, value.replace('SERVICE', host)]);
    const before = await operator.ok('GET', '/api/accounts');
    for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded']) {
      const response = await operator.call('POST', '/api/accounts', {
        body: { name: 'forged' },
        headers: { ...Object.fromEntries(filled), 'content-type': type },
      });
      assert.equal(response.status, 403, response.text);
    }
    const after = await operator.ok('GET', '/api/accounts');
    assert.deepEqual(after.body, before.body);
  });
}

test('signing in from a page of another origin is refused', async () => {
  for (const path of ['/api/sign-in', '/api/sign-out', '/api/password/forgot']) {
    const browser = new CookieClient(service.url);
    const response = await browser.call('POST', path, {
      body: path === '/api/sign-in' ? OPERATOR_SIGN_IN : { email: OPERATOR.email },
      headers: { origin: 'https://evil.test' },
    });
    assert.equal(response.status, 403, `${path}: ${response.text}`);
    assert.equal(browser.cookies.size, 0);
  }
});

test('a key takes precedence over cookies', async () => {
  const response = await operator.call('GET', '/api/accounts', {
    headers: { authorization: `Bearer ${service.key}` },
  });
  assert.equal(response.code, 'admin_required');
  const nonsense = await operator.call('GET', '/api/accounts', {
    headers: { authorization: 'Bearer nonsense' },
  });
  assert.equal(nonsense.code, 'invalid_api_key');
});

test('generating requires a key, not cookies', async () => {
  for (const path of ['/v1/chat/completions', '/v1/completions']) {
    assert.equal((await operator.call('POST', path, { body: {} })).code, 'invalid_api_key');
  }
});

const OPERATOR_SIGN_IN = { email: OPERATOR.email, password: OPERATOR.password };
const scripted = { id: 'test/scripted', engine: { file: 'scripted:' } };

interface SessionPage {
  data: { id: string; current: boolean }[];
}
