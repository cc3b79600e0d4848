import assert from 'node:assert/strict';
import { getKey } from '../../src/accounts/key-table.ts';
import { after, before, describe, test } from 'node:test';
import { SQLITE, testDatabases } from '../support/servers.ts';
import {
  appCode,
  OPERATOR,
  startIdentityFixture,
  tokenOf,
  type Browser,
  type IdentityFixture,
} from './fixture.ts';
import { linkIn, startMailServer, type MailServer } from './mail-server.ts';

const { email, password } = OPERATOR;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let mail: MailServer;
    let fixture: IdentityFixture;
    let operator: Browser;
    before(async () => {
      mail = await startMailServer();
      fixture = await startIdentityFixture(kind, mail);
      operator = await fixture.operator();
    });
    after(async () => {
      await fixture[Symbol.asyncDispose]();
      await mail[Symbol.asyncDispose]();
    });

    test('a forgotten password gets the same response for known and unknown addresses', async () => {
      const browser = fixture.browser();
      assert.equal((await browser.ok('getSession')).sign_in.password_reset, true);
      const request = async (address: string) => {
        const { status, body } = await browser.call('forgotPassword', { body: { email: address } });
        return { status, body };
      };
      const unknown = await request('eve@example.com');
      assert.deepEqual(await request('no address'), unknown);
      assert.deepEqual(await request(` ${email.toUpperCase()}`), unknown);
      assert.equal(unknown.status, 200);
      assert.equal((await mail.next(email)).subject, 'Reset your Sluice password');
      assert.equal(mail.received.length, 1);
    });

    test('the link sets a new password once, ends all sessions and verifies the address', async () => {
      await fixture.database.kysely.updateTable('users').set({ email_verified: 0 }).execute();
      await fixture.browser().ok('forgotPassword', { body: { email } });
      const link = linkIn(await mail.next(email));
      assert.ok(link.startsWith(`${fixture.test.url}/reset-password#`));
      const token = tokenOf(link);
      const stored = await fixture.database.kysely.selectFrom('verifications').selectAll().execute();
      assert.equal(JSON.stringify(stored).includes(token), false);
      const browser = fixture.browser();
      for (const body of [
        { token: 'x', password: 'another password' },
        { token: '', password: 'another password' },
      ]) {
        assert.equal((await browser.call('resetPassword', { body })).code, 'invalid_link');
      }
      assert.equal(
        (await browser.call('resetPassword', { body: { token, password: 'short' } })).param,
        'password',
      );
      const { id: keyId } = await operator.ok('createPlaygroundKey', { body: { account_id: 'default' } });
      await browser.ok('resetPassword', { body: { token, password: 'another password' } });
      assert.notEqual((await getKey(fixture.database, keyId)).revoked_at, null);
      assert.equal(browser.cookies.size, 0);
      assert.equal((await operator.ok('getSession')).user, null);
      assert.equal((await operator.call('signIn', { body: { email, password } })).code, 'wrong_credentials');
      await operator.ok('signIn', { body: { email, password: 'another password' } });
      const again = await browser.call('resetPassword', { body: { token, password } });
      assert.equal(again.code, 'invalid_link');
      const user = await fixture.database.kysely.selectFrom('users').selectAll().executeTakeFirstOrThrow();
      assert.equal(user.email_verified, 1);
      assert.ok((await fixture.audit()).includes(`user.change_password user:${user.id}`));
    });

    test('the link ends the sessions and playground keys of a user with a verified address', async () => {
      const { id } = await operator.ok('createPlaygroundKey', { body: { account_id: 'default' } });
      await fixture.browser().ok('forgotPassword', { body: { email } });
      const token = tokenOf(linkIn(await mail.next(email)));
      await fixture.browser().ok('resetPassword', { body: { token, password: 'another password' } });
      assert.equal((await operator.ok('getSession')).user, null);
      assert.notEqual((await getKey(fixture.database, id)).revoked_at, null);
      await operator.ok('signIn', { body: { email, password: 'another password' } });
    });

    test('the link removes the second factor of an unverified user, which someone else may have set up', async () => {
      for (const verified of [false, true]) {
        const address = `${verified ? 'own' : 'squatted'}@example.com`;
        const body = { account_id: 'default', email: address, role: 'member' };
        const { link } = await operator.ok('createInvitation', { body });
        await mail.next(address);
        const first = fixture.browser();
        await first.ok('acceptInvitation', { body: { token: tokenOf(link), name: 'A', password } });
        const { uri } = await first.ok('beginTwoFactor', { body: { password } });
        await first.ok('confirmTwoFactor', { body: { code: appCode(uri) } });
        await fixture.database.kysely
          .updateTable('users')
          .set({ email_verified: verified ? 1 : 0 })
          .where('email', '=', address)
          .execute();
        await fixture.browser().ok('forgotPassword', { body: { email: address } });
        const token = tokenOf(linkIn(await mail.next(address)));
        const owner = fixture.browser();
        await owner.ok('resetPassword', { body: { token, password: 'another password' } });
        const { status } = await owner.ok('signIn', {
          body: { email: address, password: 'another password' },
        });
        assert.equal(status, verified ? 'second_factor' : 'signed_in');
      }
    });

    test('changing the password revokes earlier reset links', async () => {
      await fixture.browser().ok('forgotPassword', { body: { email } });
      const token = tokenOf(linkIn(await mail.next(email)));
      const body = { current_password: 'another password', new_password: password };
      await operator.ok('changePassword', { body });
      const late = await fixture
        .browser()
        .call('resetPassword', { body: { token, password: 'a third password' } });
      assert.equal(late.code, 'invalid_link');
    });

    test('the number of reset emails to a user is limited', async () => {
      const address = 'rita@example.com';
      await operator.ok('createUser', { body: { name: 'Rita', email: address } });
      const before = mail.received.length;
      const codes: (string | null)[] = [];
      for (let n = 0; n < 7; n++) {
        codes.push((await fixture.browser().call('forgotPassword', { body: { email: address } })).code);
      }
      assert.deepEqual(codes, [...Array<null>(5).fill(null), 'too_many_attempts', 'too_many_attempts']);
      for (let n = 0; n < 5; n++) await mail.next(address);
      assert.equal(mail.received.length, before + 5);
    });

    test('an invitation is sent by email with the link that the API returns', async () => {
      const body = { account_id: 'default', email: 'zoe@example.com', role: 'member' };
      const created = await operator.ok('createInvitation', { body });
      assert.equal(created.mailed, true);
      const message = await mail.next('zoe@example.com');
      assert.equal(linkIn(message), created.link);
      assert.match(message.text, /account Default/);
    });

    test('the log contains no email, link or address', () => {
      const log = fixture.test.log();
      for (const word of [
        email,
        'zoe@example.com',
        'mail password',
        ...mail.received.map(({ text }) => text),
      ]) {
        assert.equal(log.includes(word), false, word);
      }
    });
  });
}

test('without SMTP, passwords cannot be reset by email', async () => {
  await using fixture = await startIdentityFixture(SQLITE);
  const browser = fixture.browser();
  assert.equal((await browser.ok('getSession')).sign_in.password_reset, false);
  const response = await browser.call('forgotPassword', { body: { email } });
  assert.deepEqual([response.status, response.code], [404, 'not_configured']);
});

test('a failure to send an email is only logged', async () => {
  const yaml = `smtp: { host: 127.0.0.1, port: 1, from: 'sluice@example.org' }\n`;
  await using fixture = await startIdentityFixture(SQLITE, { yaml });
  await fixture.operator();
  await fixture.browser().ok('forgotPassword', { body: { email } });
  await fixture.test.service[Symbol.asyncDispose]();
  assert.match(fixture.test.log(), /email not sent/);
  assert.equal(fixture.test.log().includes(email), false);
});
