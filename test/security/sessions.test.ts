/** What a session cookie is, when it changes, when it dies, and that only pages of ours can use it. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startService, type TestService } from '../harness.ts';
import { OPERATOR, setupToken } from '../operator.ts';
import { Browser, firstOperator, signIn } from './people.ts';

let service: TestService;
let operator: Browser;
before(async () => {
  service = await startService();
  operator = await firstOperator(service);
});
after(() => service[Symbol.asyncDispose]());

test('a session cookie is HttpOnly, SameSite, for the whole host and for nobody else', async () => {
  const browser = await signIn(service.url);
  assert.ok(browser.setCookies.length > 0);
  for (const line of browser.setCookies) {
    assert.match(line, /; HttpOnly(;|$)/i, line);
    assert.match(line, /; SameSite=(Lax|Strict)(;|$)/i, line);
    assert.match(line, /; Path=\/(;|$)/i, line);
    assert.doesNotMatch(line, /; Domain=/i, line);
  }
});

test('behind HTTPS the cookie is Secure, and bound to its host by its name', async () => {
  const secure = await startService(JSON.stringify({ publicUrl: 'https://sluice.test', models: [scripted] }));
  try {
    const address = { url: secure.service.localUrl, home: secure.home };
    const browser = new Browser(address.url);
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

test('each sign-in makes another session, also in a browser that brings one', async () => {
  const browser = await signIn(service.url);
  const before = browser.copy();
  await browser.ok('POST', '/api/sign-in', { body: OPERATOR_SIGN_IN });
  assert.notEqual(browser.cookieHeader, before.cookieHeader);
  const planted = new Browser(service.url);
  for (const [name] of browser.cookies) planted.cookies.set(name, 'a'.repeat(32));
  await planted.ok('POST', '/api/sign-in', { body: OPERATOR_SIGN_IN });
  assert.ok(!planted.cookieHeader.includes('a'.repeat(32)));
});

test('signing out ends the session, and not only the cookie', async () => {
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
  assert.equal(await stolen.isSignedIn(), false, 'the cookie of before the change opens nothing');
  assert.equal(await operator.isSignedIn(), false);
  await browser.ok('POST', '/api/me/password', {
    body: { current_password: change.new_password, new_password: OPERATOR.password },
  });
  operator = browser;
});

test('no body ever has the token of a session', async () => {
  const browser = await signIn(service.url);
  const secrets = [...browser.cookies.values()].flatMap(
    (value) => decodeURIComponent(value).split('.')[0] ?? [],
  );
  for (const path of ['/api/session', '/api/me/sessions', '/api/people', '/api/audit']) {
    const { text } = await browser.ok('GET', path);
    for (const secret of secrets) assert.ok(!text.includes(secret), path);
  }
});

test('a session can be ended from another, and ends at once', async () => {
  const [here, there] = [await signIn(service.url), await signIn(service.url)];
  // As the contract has it.
  const { data } = (await there.ok('GET', '/api/me/sessions')).body as unknown as SessionPage;
  const current = data.find((session) => session.current);
  assert.ok(current);
  await here.ok('DELETE', `/api/me/sessions/${current.id}`);
  assert.equal(await there.isSignedIn(), false);
});

/** Who else could make a browser send its cookies: pages of other origins, and no page at all. */
const FOREIGN: readonly (readonly [what: string, headers: Record<string, string>])[] = [
  ['another origin', { origin: 'https://evil.test' }],
  ['the origin of a sandboxed frame', { origin: 'null' }],
  ['an origin that begins as ours does', { origin: 'SERVICE.evil.test' }],
  ['an origin that ends as ours does', { origin: 'http://evil.SERVICE' }],
  ['our origin with a user before it', { origin: 'http://SERVICE@evil.test' }],
  ['our host by another scheme', { origin: 'https://SERVICE' }],
  ['another port of our host', { origin: 'http://127.0.0.1:1' }],
  ['a site that says that it is another', { 'sec-fetch-site': 'cross-site' }],
  ['a sibling of our site', { 'sec-fetch-site': 'same-site' }],
  ['a host that is claimed to be evil too', { origin: 'https://evil.test', 'x-forwarded-host': 'evil.test' }],
  ['a referrer of ours and no origin', { origin: '', referer: 'http://SERVICE/keys' }],
];

for (const [what, headers] of FOREIGN) {
  test(`a change with the cookies of a person is refused from ${what}`, async () => {
    const host = new URL(service.url).host;
    const filled = Object.entries(headers).map(([name, value]) => [name, value.replace('SERVICE', host)]);
    const before = await operator.ok('GET', '/api/accounts');
    for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded']) {
      const answer = await operator.call('POST', '/api/accounts', {
        body: { name: 'forged' },
        headers: { ...Object.fromEntries(filled), 'content-type': type },
      });
      assert.equal(answer.status, 403, answer.text);
    }
    const after = await operator.ok('GET', '/api/accounts');
    assert.deepEqual(after.body, before.body);
  });
}

test('nobody is signed in from a page of another origin', async () => {
  for (const path of ['/api/sign-in', '/api/sign-out', '/api/password/forgot']) {
    const browser = new Browser(service.url);
    const answer = await browser.call('POST', path, {
      body: path === '/api/sign-in' ? OPERATOR_SIGN_IN : { email: OPERATOR.email },
      headers: { origin: 'https://evil.test' },
    });
    assert.equal(answer.status, 403, `${path}: ${answer.text}`);
    assert.equal(browser.cookies.size, 0);
  }
});

test('a key counts, and not the cookies beside it', async () => {
  const answer = await operator.call('GET', '/api/accounts', {
    headers: { authorization: `Bearer ${service.key}` },
  });
  assert.equal(answer.code, 'admin_required');
  const nonsense = await operator.call('GET', '/api/accounts', {
    headers: { authorization: 'Bearer nonsense' },
  });
  assert.equal(nonsense.code, 'invalid_api_key');
});

test('cookies pay for nothing: generating takes a key', async () => {
  for (const path of ['/v1/chat/completions', '/v1/completions']) {
    assert.equal((await operator.call('POST', path, { body: {} })).code, 'invalid_api_key');
  }
});

const OPERATOR_SIGN_IN = { email: OPERATOR.email, password: OPERATOR.password };
const scripted = { id: 'test/scripted', engine: { file: 'scripted:' } };

interface SessionPage {
  data: { id: string; current: boolean }[];
}
