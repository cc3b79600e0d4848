/** Nothing can be found out, or got, by asking often: passwords, codes, links, who is known here. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { startService, type TestService } from '../harness.ts';
import { OPERATOR, setupToken } from '../operator.ts';
import { Browser, firstOperator } from './people.ts';

let service: TestService;
beforeEach(async () => {
  service = await startService();
});
afterEach(() => service[Symbol.asyncDispose]());

test('a wrong password and an unknown address are told apart by nothing', async () => {
  await firstOperator(service);
  const browser = new Browser(service.url);
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

test('passwords cannot be tried on and on, whatever address a header claims', async () => {
  await firstOperator(service);
  const answers = [];
  for (let attempt = 0; attempt < 12; attempt++) {
    const address = `198.51.100.${attempt}`;
    const answer = await new Browser(service.url).call('POST', '/api/sign-in', {
      body: { email: OPERATOR.email, password: `no ${attempt}` },
      headers: {
        'x-forwarded-for': address,
        'x-real-ip': address,
        'x-sluice-ip': address,
        'cf-connecting-ip': address,
        forwarded: `for=${address}`,
      },
    });
    answers.push(answer);
  }
  const last = answers.at(-1);
  assert.deepEqual([last?.status, last?.code], [429, 'too_many_attempts']);
  assert.ok(Number(last?.headers.get('retry-after')) > 0);
  const right = { email: OPERATOR.email, password: OPERATOR.password };
  const late = await new Browser(service.url).call('POST', '/api/sign-in', { body: right });
  assert.equal(late.code, 'too_many_attempts', 'the right one is refused as a wrong one is');
});

test('an address claimed in a header is written down nowhere', async () => {
  const operator = await firstOperator(service);
  const browser = new Browser(service.url);
  const headers = {
    'x-forwarded-for': '198.51.100.7',
    'x-sluice-ip': '198.51.100.7',
    'x-real-ip': '198.51.100.7',
  };
  await browser.ok('POST', '/api/sign-in', {
    body: { email: OPERATOR.email, password: OPERATOR.password },
    headers,
  });
  await browser.ok('POST', '/api/accounts', { body: { name: 'made' }, headers });
  for (const path of ['/api/me/sessions', '/api/audit']) {
    const { text } = await operator.ok('GET', path);
    assert.ok(!text.includes('198.51.100.7'), text);
    assert.ok(text.includes('127.0.0.1'), text);
  }
});

test('a set-up link cannot be guessed, is taken once, and the newest alone counts', async () => {
  const older = await setupToken(service);
  const token = await setupToken(service);
  const browser = new Browser(service.url);
  for (const guess of ['', 'a', token.slice(0, -1), `${token}a`, token.toLowerCase(), older]) {
    const answer = await browser.call('POST', '/api/setup', { body: { token: guess, ...OPERATOR } });
    assert.ok(['invalid_link', 'too_many_attempts'].includes(answer.code ?? ''), answer.text);
  }
  assert.equal(browser.cookies.size, 0);
});

test('two who use the set-up link at once do not both get in', async () => {
  const token = await setupToken(service);
  const answers = await Promise.all(
    ['a', 'b', 'c', 'd'].map((name) =>
      new Browser(service.url).call('POST', '/api/setup', {
        body: { token, ...OPERATOR, email: `${name}@acme.example` },
      }),
    ),
  );
  assert.equal(answers.filter(({ status }) => status < 300).length, 1);
});

test('a forgotten password is answered in the same way for everybody', async () => {
  await firstOperator(service);
  const answers = [];
  for (const email of [OPERATOR.email, 'nobody@acme.example']) {
    answers.push(await new Browser(service.url).call('POST', '/api/password/forgot', { body: { email } }));
  }
  assert.deepEqual([answers[0]?.status, answers[0]?.text], [answers[1]?.status, answers[1]?.text]);
});

test("somebody else's account, key or member is not there, in the words of what nobody has", async () => {
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
  const mia = new Browser(service.url);
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
    const ask = async (account: string, keyId: string) => {
      const fill = (text: string) => text.replace('ID', account).replace('KEY', keyId);
      const sent = body === undefined ? {} : { body: fill(JSON.stringify(body)) };
      const { status, code, text } = await mia.call(method, fill(path), sent);
      assert.equal(status, 404, `${method} ${path}: ${status} ${text}`);
      return { status, code, text };
    };
    assert.deepEqual(
      await ask(String(theirs.id), String(key.id)),
      await ask('acct_000000000000000000000000', 'key_000000000000000000000000'),
    );
  }
});

test('where a sign-in leads back to is a page of the console', async () => {
  // Whatever providers there are: the path is looked at first, or there is none to go to.
  for (const to of [
    '//evil.test',
    'https://evil.test',
    '/\\evil.test',
    'javascript:alert(1)',
    '\t//evil.test',
  ]) {
    const answer = await new Browser(service.url).call('POST', '/api/sign-in/provider', {
      body: { provider: 'nobody', return_to: to },
    });
    assert.ok(answer.status >= 400 && answer.status < 500, `${to}: ${answer.text}`);
  }
});
