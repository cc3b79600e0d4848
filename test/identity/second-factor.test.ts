import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { testDatabases } from '../support/servers.ts';
import { appCode, OPERATOR, startIdentityFixture, type Browser, type IdentityFixture } from './fixture.ts';

const { email, password } = OPERATOR;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let fixture: IdentityFixture;
    let browser: Browser;
    let uri = '';
    let recoveryCodes: string[] = [];
    before(async () => {
      fixture = await startIdentityFixture(kind);
      browser = await fixture.operator();
    });
    after(() => fixture[Symbol.asyncDispose]());

    test('setup requires the password, and the second factor is enabled by a code', async () => {
      for (const body of [{}, { password: 'not this one' }]) {
        assert.equal((await browser.call('beginTwoFactor', { body })).code, 'wrong_credentials');
      }
      const first = await browser.ok('beginTwoFactor', { body: { password } });
      const created = await browser.ok('beginTwoFactor', { body: { password } });
      uri = created.uri;
      recoveryCodes = created.recovery_codes;
      assert.equal(new Set(recoveryCodes).size, 10);
      for (const code of recoveryCodes) assert.match(code, /^([a-z2-7]{4}-){3}[a-z2-7]{4}$/);
      const wrong = await browser.call('confirmTwoFactor', { body: { code: appCode(first.uri) } });
      assert.deepEqual([wrong.code, wrong.param], ['wrong_credentials', 'code']);
      assert.equal((await browser.ok('getSession')).user?.two_factor, false);
      await fixture.browser().ok('signIn', { body: { email, password } });
    });

    test('enabling the second factor ends other sessions, and it must be disabled before it can be replaced', async () => {
      const other = fixture.browser();
      await other.ok('signIn', { body: { email, password } });
      await browser.ok('confirmTwoFactor', { body: { code: appCode(uri) } });
      assert.equal((await browser.ok('getSession')).user?.two_factor, true);
      assert.equal((await other.ok('getSession')).user, null);
      assert.equal((await browser.call('beginTwoFactor', { body: { password } })).code, 'conflict');
      assert.equal((await browser.call('confirmTwoFactor', { body: { code: appCode(uri) } })).status, 403);
    });

    test('a password alone does not sign in', async () => {
      const half = fixture.browser();
      assert.deepEqual(await half.ok('signIn', { body: { email, password } }), { status: 'second_factor' });
      const session = await half.ok('getSession');
      assert.equal(session.user, null);
      assert.deepEqual(session.accounts, []);
      assert.equal(session.sign_in.second_factor_due, true);
      assert.equal((await half.call('listSessions')).code, 'sign_in_required');
      assert.equal((await half.call('listUsers')).status, 401);
      assert.equal((await half.call('endTwoFactor', { body: { password } })).code, 'sign_in_required');
      assert.equal((await browser.ok('listSessions')).data.length, 1);
    });

    test('a code completes the sign-in with a new cookie, and works once', async () => {
      const half = fixture.browser();
      await half.ok('signIn', { body: { email, password } });
      const pending = new Map(half.cookies);
      // The code of the next step, because the current one may have been used for the setup.
      const code = appCode(uri, 1);
      await half.ok('signInSecondFactor', { body: { code, kind: 'totp' } });
      assert.equal((await half.ok('getSession')).user?.email, email);
      assert.notDeepEqual(half.cookies, pending);
      const again = fixture.browser();
      await again.ok('signIn', { body: { email, password } });
      for (const old of [code, appCode(uri, 0), appCode(uri, -1)]) {
        const response = await again.call('signInSecondFactor', { body: { code: old, kind: 'totp' } });
        assert.equal(response.code, 'wrong_credentials');
      }
      for (const [name, value] of pending) again.cookies.set(name, value);
      const late = await again.call('signInSecondFactor', { body: { code, kind: 'totp' } });
      assert.equal(late.code, 'sign_in_required');
    });

    test('each recovery code works once, however it is typed', async () => {
      const [first = '', second = ''] = recoveryCodes;
      const half = fixture.browser();
      await half.ok('signIn', { body: { email, password } });
      const kind = 'recovery';
      assert.equal(
        (await half.call('signInSecondFactor', { body: { code: 'aaaa-aaaa-aaaa-aaaa', kind } })).code,
        'wrong_credentials',
      );
      const typed = ` ${first.toUpperCase().replaceAll('-', ' ')}`;
      await half.ok('signInSecondFactor', { body: { code: typed, kind } });
      const again = [fixture.browser(), fixture.browser()];
      for (const one of again) await one.ok('signIn', { body: { email, password } });
      assert.equal(
        (await again[0]?.call('signInSecondFactor', { body: { code: first, kind } }))?.code,
        'wrong_credentials',
      );
      // Two concurrent sign-ins with one code: one succeeds.
      const both = await Promise.all(
        again.map((one) => one.call('signInSecondFactor', { body: { code: second, kind } })),
      );
      assert.deepEqual(
        both.map(({ status }) => status).toSorted((a, b) => a - b),
        [200, 403],
      );
      const rows = await fixture.database.kysely.selectFrom('recovery_codes').selectAll().execute();
      assert.equal(rows.length, 8);
      for (const code of recoveryCodes)
        assert.equal(JSON.stringify(rows).includes(code.replaceAll('-', '')), false);
    });

    test('new recovery codes replace the old ones', async () => {
      assert.equal((await browser.call('renewRecoveryCodes', { body: {} })).code, 'wrong_credentials');
      const created = await browser.ok('renewRecoveryCodes', { body: { password } });
      const half = fixture.browser();
      await half.ok('signIn', { body: { email, password } });
      const old = await half.call('signInSecondFactor', {
        body: { code: recoveryCodes[5], kind: 'recovery' },
      });
      assert.equal(old.code, 'wrong_credentials');
      await half.ok('signInSecondFactor', {
        body: { code: created.recovery_codes[0], kind: 'recovery' },
      });
    });

    test('code guessing is limited across all IP addresses', async () => {
      const body = { code: '000000', kind: 'totp' };
      const responses: (string | null)[] = [];
      for (let n = 0; n < 12; n++) {
        const guesser = fixture.browser();
        await guesser.ok('signIn', { body: { email, password } });
        responses.push((await guesser.call('signInSecondFactor', { body })).code);
      }
      assert.equal(responses[0], 'wrong_credentials');
      assert.equal(responses.at(-1), 'too_many_attempts');
    });

    test('disabling the second factor requires the password; after that, the password alone signs in', async () => {
      assert.equal((await browser.call('endTwoFactor', { body: {} })).code, 'wrong_credentials');
      await browser.ok('endTwoFactor', { body: { password } });
      assert.deepEqual(await fixture.browser().ok('signIn', { body: { email, password } }), {
        status: 'signed_in',
      });
      assert.equal((await browser.call('renewRecoveryCodes', { body: { password } })).code, 'conflict');
      const audit = (await fixture.audit()).map((line) => line.split(' ')[0]);
      for (const action of [
        'begin_two_factor',
        'renew_recovery_codes',
        'end_two_factor',
        'sign_in_refused',
      ]) {
        assert.ok(audit.includes(`user.${action}`), action);
      }
    });
  });
}
