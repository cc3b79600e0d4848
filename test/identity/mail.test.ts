import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { testDatabases } from '../servers.ts';
import { OPERATOR, startPlace, tokenOf, type Browser, type Place } from './browser.ts';
import { linkIn, startMailServer, type MailServer } from './mail-server.ts';

const { email, password } = OPERATOR;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let mail: MailServer;
    let place: Place;
    let operator: Browser;
    before(async () => {
      mail = await startMailServer();
      place = await startPlace(kind, mail);
      operator = await place.operator();
    });
    after(async () => {
      await place[Symbol.asyncDispose]();
      await mail[Symbol.asyncDispose]();
    });

    test('a forgotten password is answered alike whether somebody has the address or not', async () => {
      const browser = place.browser();
      assert.equal((await browser.ok('getSession')).sign_in.password_reset, true);
      const told = async (address: string) => {
        const { status, body } = await browser.call('forgotPassword', { body: { email: address } });
        return { status, body };
      };
      const unknown = await told('eve@example.com');
      assert.deepEqual(await told('no address'), unknown);
      assert.deepEqual(await told(` ${email.toUpperCase()}`), unknown);
      assert.equal(unknown.status, 200);
      assert.equal((await mail.next(email)).subject, 'Reset your Sluice password');
      assert.equal(mail.received.length, 1);
    });

    test('the link sets a new password once, ends every session, and shows that the address is theirs', async () => {
      await place.database.kysely.updateTable('people').set({ email_verified: 0 }).execute();
      await place.browser().ok('forgotPassword', { body: { email } });
      const link = linkIn(await mail.next(email));
      assert.ok(link.startsWith(`${place.test.url}/reset-password#`));
      const token = tokenOf(link);
      const kept = await place.database.kysely.selectFrom('verifications').selectAll().execute();
      assert.equal(JSON.stringify(kept).includes(token), false);
      const browser = place.browser();
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
      await browser.ok('resetPassword', { body: { token, password: 'another password' } });
      assert.equal(browser.cookies.size, 0);
      assert.equal((await operator.ok('getSession')).person, null);
      assert.equal((await operator.call('signIn', { body: { email, password } })).code, 'wrong_credentials');
      await operator.ok('signIn', { body: { email, password: 'another password' } });
      const again = await browser.call('resetPassword', { body: { token, password } });
      assert.equal(again.code, 'invalid_link');
      const person = await place.database.kysely.selectFrom('people').selectAll().executeTakeFirstOrThrow();
      assert.equal(person.email_verified, 1);
      assert.ok((await place.audit()).includes(`person.change_password person:${person.id}`));
    });

    test('changing the password makes links void that were sent before', async () => {
      await place.browser().ok('forgotPassword', { body: { email } });
      const token = tokenOf(linkIn(await mail.next(email)));
      const body = { current_password: 'another password', new_password: password };
      await operator.ok('changePassword', { body });
      const late = await place
        .browser()
        .call('resetPassword', { body: { token, password: 'a third password' } });
      assert.equal(late.code, 'invalid_link');
    });

    test('nobody can have somebody else drowned in messages', async () => {
      await place.database.kysely.deleteFrom('attempts').execute();
      const before = mail.received.length;
      const codes: (string | null)[] = [];
      for (let n = 0; n < 7; n++) {
        codes.push((await place.browser().call('forgotPassword', { body: { email } })).code);
      }
      assert.deepEqual(codes, [...Array<null>(5).fill(null), 'too_many_attempts', 'too_many_attempts']);
      for (let n = 0; n < 5; n++) await mail.next(email);
      assert.equal(mail.received.length, before + 5);
    });

    test('an invitation is written to the address, with the very link that is shown', async () => {
      const body = { account_id: 'default', email: 'zoe@example.com', role: 'member' };
      const made = await operator.ok('createInvitation', { body });
      assert.equal(made.mailed, true);
      const message = await mail.next('zoe@example.com');
      assert.equal(linkIn(message), made.link);
      assert.match(message.text, /account Default/);
    });

    test('no message, link or address is in the log', () => {
      const log = place.test.log();
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

test('without a mail server nobody can ask for a new password', async () => {
  const [sqlite] = testDatabases();
  assert.ok(sqlite);
  await using place = await startPlace(sqlite);
  const browser = place.browser();
  assert.equal((await browser.ok('getSession')).sign_in.password_reset, false);
  const answer = await browser.call('forgotPassword', { body: { email } });
  assert.deepEqual([answer.status, answer.code], [404, 'not_configured']);
});

test('a mail server that does not answer is told by the log and by nothing else', async () => {
  const [sqlite] = testDatabases();
  assert.ok(sqlite);
  const yaml = `smtp: { host: 127.0.0.1, port: 1, from: 'sluice@example.org' }\n`;
  await using place = await startPlace(sqlite, { yaml });
  await place.operator();
  await place.browser().ok('forgotPassword', { body: { email } });
  await place.test.service[Symbol.asyncDispose]();
  assert.match(place.test.log(), /email not sent/);
  assert.equal(place.test.log().includes(email), false);
});
