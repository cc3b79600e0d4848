/** Secrets are neither logged nor stored in plain text. */
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { chat, post, startService } from '../harness.ts';
import { OPERATOR, setupToken } from '../operator.ts';
import { CookieClient, firstOperator, signIn } from './cookie-client.ts';

test('the log and the files of a service contain no secrets', async () => {
  await using service = await startService(JSON.stringify({ logLevel: 'debug', models: [SCRIPTED] }));
  const secrets = new Map<string, string>();
  secrets.set('an unused setup token', await setupToken(service));
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
  const { body: playground } = await operator.ok('POST', '/api/playground-keys', {
    body: { account_id: 'default' },
  });
  secrets.set('a key of the playground', String(playground.key));
  const { body: invitation } = await operator.ok('POST', '/api/invitations', {
    body: { account_id: 'default', email: 'mia@acme.example', role: 'member' },
  });
  const token = new URL(String(invitation.link)).hash.slice(1);
  secrets.set('the token of an invitation', token);
  const mia = new CookieClient(service.url);
  const password = 'the password of mia';
  await mia.ok('POST', '/api/invitations/accept', { body: { token, name: 'Mia', password } });
  secrets.set('a password that came with an invitation', password);
  const { body: factor } = await mia.ok('POST', '/api/me/two-factor', { body: { password } });
  // The TOTP secret must be in the database, because the service needs it to check codes.
  const totp = new URL(String(factor.uri)).searchParams.get('secret') ?? '';
  for (const [index, code] of (factor.recovery_codes as string[]).entries())
    secrets.set(`recovery code ${index}`, code);
  await mia.call('POST', '/api/me/two-factor/confirm', { body: { code: '000000' } });
  await (await post(service, '/v1/chat/completions', chat('a prompt that must not be stored'))).text();
  secrets.set('a prompt', 'a prompt that must not be stored');
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
  for (const [name, secret] of secrets) {
    assert.ok(secret.length >= 8, name);
    for (const [place, bytes] of written) assert.ok(!bytes.includes(secret), `${name} is in ${place}`);
  }
});

const SCRIPTED = { id: 'test/scripted', required: true, engine: { file: 'scripted:' } };
