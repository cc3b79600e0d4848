/** No secret gets where it stays: not into the log, not into the database as it is, not into an address. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { chat, post, startService } from '../harness.ts';
import { OPERATOR, setupToken } from '../operator.ts';
import { Browser, firstOperator, signIn } from './people.ts';

test('after a whole life of a service no secret stands in its log or its files', async () => {
  await using service = await startService(JSON.stringify({ logLevel: 'debug', models: [SCRIPTED] }));
  const secrets = new Map<string, string>();
  secrets.set('an unused set-up token', await setupToken(service));
  const operator = await firstOperator(service);
  secrets.set('a password', OPERATOR.password);
  secrets.set('a key of the tests', service.key);
  const browser = await signIn(service.url);
  for (const [name, value] of [...browser.cookies, ...operator.cookies]) {
    const [token = ''] = decodeURIComponent(value).split('.');
    secrets.set(`the token in ${name} ${token.slice(0, 4)}`, token);
  }
  await browser.call('POST', '/api/sign-in', {
    body: { email: OPERATOR.email, password: 'a wrong password' },
  });
  secrets.set('a wrong password', 'a wrong password');
  const { body: key } = await operator.ok('POST', '/api/keys', {
    body: { name: 'k', account_id: 'default' },
  });
  secrets.set('a new key', String(key.key));
  const { body: hour } = await operator.ok('POST', '/api/playground-keys', {
    body: { account_id: 'default' },
  });
  secrets.set('a key of the playground', String(hour.key));
  const { body: invitation } = await operator.ok('POST', '/api/invitations', {
    body: { account_id: 'default', email: 'mia@acme.example', role: 'member' },
  });
  const token = new URL(String(invitation.link)).hash.slice(1);
  secrets.set('the token of an invitation', token);
  const mia = new Browser(service.url);
  const password = 'the password of mia';
  await mia.ok('POST', '/api/invitations/accept', { body: { token, name: 'Mia', password } });
  secrets.set('a password that came with an invitation', password);
  const { body: factor } = await mia.ok('POST', '/api/me/two-factor', { body: { password } });
  // The service has to read it to check codes by it: it stands in the database, and nowhere else.
  const totp = new URL(String(factor.uri)).searchParams.get('secret') ?? '';
  for (const [index, code] of (factor.recovery_codes as string[]).entries())
    secrets.set(`recovery code ${index}`, code);
  await mia.call('POST', '/api/me/two-factor/confirm', { body: { code: '000000' } });
  await (await post(service, '/v1/chat/completions', chat('a prompt that nobody shall find'))).text();
  secrets.set('a prompt', 'a prompt that nobody shall find');
  await mia.ok('POST', '/api/sign-out');
  const written = [
    ['the log', Buffer.from(service.log())],
    ...(await Promise.all(
      (await readdir(service.home, { withFileTypes: true, recursive: true }))
        .filter((entry) => entry.isFile())
        .map((entry) => join(entry.parentPath, entry.name))
        .map(async (path) => [path, await readFile(path)] as const),
    )),
  ] as const;
  assert.ok(written.length > 1);
  assert.ok(totp.length >= 16);
  assert.ok(!service.log().includes(totp));
  for (const [what, secret] of secrets) {
    assert.ok(secret.length >= 8, what);
    for (const [where, bytes] of written) assert.ok(!bytes.includes(secret), `${what} stands in ${where}`);
  }
});

const SCRIPTED = { id: 'test/scripted', required: true, engine: { file: 'scripted:' } };
