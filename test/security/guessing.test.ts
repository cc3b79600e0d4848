/** Guessing and enumeration: passwords, links, users, and resources of other accounts. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { startService, type TestService } from '../harness.ts';
import { OPERATOR, setupToken } from '../operator.ts';
import { CookieClient, firstOperator } from './cookie-client.ts';

let service: TestService;
beforeEach(async () => {
  service = await startService();
});
afterEach(() => service[Symbol.asyncDispose]());

test('a wrong password and an unknown address get the same response', async () => {
  await firstOperator(service);
  const browser = new CookieClient(service.url);
  const wrong = await browser.call('POST', '/api/sign-in', {
    body: { email: OPERATOR.email, password: 'not this one at all' },
  });
  const unknown = await browser.call('POST', '/api/sign-in', {
    body: { email: 'nobody@acme.example', password: 'not this one at all' },
  });
  assert.deepEqual([wrong.status, wrong.text], [unknown.status, unknown.text]);
  assert.deepEqual(
    [...wrong.headers.keys()].filter((name) => name !== 'date'),
    [...unknown.headers.keys()].filter((name) => name !== 'date'),
  );
});

test('password guessing is limited, even if a header claims another IP address', async () => {
  await firstOperator(service);
  const responses = [];
  for (let attempt = 0; attempt < 12; attempt++) {
    const address = `198.51.100.${attempt}`;
    const response = await new CookieClient(service.url).call('POST', '/api/sign-in', {
      body: { email: OPERATOR.email, password: `no ${attempt}` },
      headers: {
        'x-forwarded-for': address,
        'x-real-ip': address,
        'x-sluice-ip': address,
        'cf-connecting-ip': address,
        forwarded: `for=${address}`,
      },
    });
    responses.push(response);
  }
  const last = responses.at(-1);
  assert.deepEqual([last?.status, last?.code], [429, 'too_many_attempts']);
  assert.ok(Number(last?.headers.get('retry-after')) > 0);
  const right = { email: OPERATOR.email, password: OPERATOR.password };
  const late = await new CookieClient(service.url).call('POST', '/api/sign-in', { body: right });
  assert.equal(late.code, 'too_many_attempts', 'the right password is refused too');
});

test('an address claimed in a header is not stored', async () => {
  const operator = await firstOperator(service);
  const browser = new CookieClient(service.url);
  const headers = {
    'x-forwarded-for': '198.51.100.7',
    'x-sluice-ip': '198.51.100.7',
    'x-real-ip': '198.51.100.7',
  };
  await browser.ok('POST', '/api/sign-in', {
    body: { email: OPERATOR.email, password: OPERATOR.password },
    headers,
  });
  await browser.ok('POST', '/api/accounts', { body: { name: 'acme' }, headers });
  for (const path of ['/api/me/sessions', '/api/audit']) {
    const { text } = await operator.ok('GET', path);
    assert.ok(!text.includes('198.51.100.7'), text);
    assert.ok(text.includes('127.0.0.1'), text);
  }
});

test('only the latest setup link works', async () => {
  const older = await setupToken(service);
  const token = await setupToken(service);
  const browser = new CookieClient(service.url);
  for (const guess of ['', 'a', token.slice(0, -1), `${token}a`, token.toLowerCase(), older]) {
    const response = await browser.call('POST', '/api/setup', { body: { token: guess, ...OPERATOR } });
    assert.ok(['invalid_link', 'too_many_attempts'].includes(response.code ?? ''), response.text);
  }
  assert.equal(browser.cookies.size, 0);
});

test('concurrent uses of a setup link create one operator', async () => {
  const token = await setupToken(service);
  const responses = await Promise.all(
    ['a', 'b', 'c', 'd'].map((name) =>
      new CookieClient(service.url).call('POST', '/api/setup', {
        body: { token, ...OPERATOR, email: `${name}@acme.example` },
      }),
    ),
  );
  assert.equal(responses.filter(({ status }) => status < 300).length, 1);
});

test('a password reset request gets the same response for known and unknown addresses', async () => {
  await firstOperator(service);
  const responses = [];
  for (const email of [OPERATOR.email, 'nobody@acme.example']) {
    responses.push(
      await new CookieClient(service.url).call('POST', '/api/password/forgot', { body: { email } }),
    );
  }
  assert.deepEqual([responses[0]?.status, responses[0]?.text], [responses[1]?.status, responses[1]?.text]);
});

test('accounts that a user does not belong to, and their keys, get the same response as nonexistent ones', async () => {
  const operator = await firstOperator(service);
  const { body: theirs } = await operator.ok('POST', '/api/accounts', { body: { name: 'theirs' } });
  const { body: key } = await operator.ok('POST', '/api/keys', {
    body: { name: 'k', account_id: theirs.id },
  });
  const { body: ours } = await operator.ok('POST', '/api/accounts', { body: { name: 'ours' } });
  const { body: invitation } = await operator.ok('POST', '/api/invitations', {
    body: { account_id: ours.id, email: 'mia@acme.example', role: 'owner' },
  });
  const token = new URL(String(invitation.link)).hash.slice(1);
  const mia = new CookieClient(service.url);
  await mia.ok('POST', '/api/invitations/accept', {
    body: { token, name: 'Mia', password: OPERATOR.password },
  });
  for (const [method, path, body] of [
    ['GET', '/api/accounts/ID'],
    ['GET', '/api/accounts/ID/members'],
    ['GET', '/api/keys?account_id=ID'],
    ['GET', '/api/usage?account_id=ID'],
    ['GET', '/api/requests?account_id=ID'],
    ['GET', '/api/invitations?account_id=ID'],
    ['PATCH', '/api/accounts/ID', { name: 'x' }],
    ['POST', '/api/keys', { name: 'x', account_id: 'ID' }],
    ['POST', '/api/playground-keys', { account_id: 'ID' }],
    ['GET', '/api/keys/KEY'],
    ['PATCH', '/api/keys/KEY', { name: 'x' }],
    ['POST', '/api/keys/KEY/revoke'],
  ] as const) {
    const call = async (account: string, keyId: string) => {
      const fill = (text: string) => text.replace('ID', account).replace('KEY', keyId);
      const sent = body === undefined ? {} : { body: fill(JSON.stringify(body)) };
      const { status, code, text } = await mia.call(method, fill(path), sent);
      assert.equal(status, 404, `${method} ${path}: ${status} ${text}`);
      return { status, code, text };
    };
    assert.deepEqual(
      await call(String(theirs.id), String(key.id)),
      await call('acct_000000000000000000000000', 'key_000000000000000000000000'),
    );
  }
});

test('the return path of a sign-in must be a page of the console', async () => {
  // Refused either for the path or for the unknown provider.
  for (const to of [
    '//evil.test',
    'https://evil.test',
    '/\\evil.test',
    'javascript:alert(1)',
    '\t//evil.test',
  ]) {
    const response = await new CookieClient(service.url).call('POST', '/api/sign-in/provider', {
      body: { provider: 'nobody', return_to: to },
    });
    assert.ok(response.status >= 400 && response.status < 500, `${to}: ${response.text}`);
  }
});
