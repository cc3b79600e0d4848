import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { testDatabases } from '../servers.ts';
import { appCode, OPERATOR, startPlace, type Browser, type Place } from './browser.ts';

const { email, password } = OPERATOR;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let place: Place;
    let browser: Browser;
    /** What the authenticator app was given, and the codes for when it is lost. */
    let uri = '';
    let codes: string[] = [];
    before(async () => {
      place = await startPlace(kind);
      browser = await place.operator();
    });
    after(() => place[Symbol.asyncDispose]());

    test('it takes the password to make one, and counts only once a code of it was given', async () => {
      for (const body of [{}, { password: 'not this one' }]) {
        assert.equal((await browser.call('beginTwoFactor', { body })).code, 'wrong_credentials');
      }
      const first = await browser.ok('beginTwoFactor', { body: { password } });
      const made = await browser.ok('beginTwoFactor', { body: { password } });
      uri = made.uri;
      codes = made.recovery_codes;
      assert.equal(new Set(codes).size, 10);
      for (const code of codes) assert.match(code, /^([a-z2-7]{4}-){3}[a-z2-7]{4}$/);
      const wrong = await browser.call('confirmTwoFactor', { body: { code: appCode(first.uri) } });
      assert.deepEqual([wrong.code, wrong.param], ['wrong_credentials', 'code']);
      assert.equal((await browser.ok('getSession')).person?.two_factor, false);
      await place.browser().ok('signIn', { body: { email, password } });
    });

    test('once it counts it ends the other sessions, and cannot be replaced but by ending it', async () => {
      const other = place.browser();
      await other.ok('signIn', { body: { email, password } });
      await browser.ok('confirmTwoFactor', { body: { code: appCode(uri) } });
      assert.equal((await browser.ok('getSession')).person?.two_factor, true);
      assert.equal((await other.ok('getSession')).person, null);
      assert.equal((await browser.call('beginTwoFactor', { body: { password } })).code, 'conflict');
      assert.equal((await browser.call('confirmTwoFactor', { body: { code: appCode(uri) } })).status, 403);
    });

    test('a password alone opens nothing', async () => {
      const half = place.browser();
      assert.deepEqual(await half.ok('signIn', { body: { email, password } }), { status: 'second_factor' });
      const session = await half.ok('getSession');
      assert.equal(session.person, null);
      assert.deepEqual(session.accounts, []);
      assert.equal(session.sign_in.second_factor_due, true);
      assert.equal((await half.call('listSessions')).code, 'sign_in_required');
      assert.equal((await half.call('listPeople')).status, 401);
      assert.equal((await half.call('endTwoFactor', { body: { password } })).code, 'sign_in_required');
      assert.equal((await browser.ok('listSessions')).data.length, 1);
    });

    test('a code completes the sign-in, under another cookie, and is taken once', async () => {
      const half = place.browser();
      await half.ok('signIn', { body: { email, password } });
      const pending = new Map(half.cookies);
      // The next one: that of the present step may have been taken when the app was shown.
      const code = appCode(uri, 1);
      await half.ok('signInSecondFactor', { body: { code, kind: 'totp' } });
      assert.equal((await half.ok('getSession')).person?.email, email);
      assert.notDeepEqual(half.cookies, pending);
      const again = place.browser();
      await again.ok('signIn', { body: { email, password } });
      for (const old of [code, appCode(uri, 0), appCode(uri, -1)]) {
        const answer = await again.call('signInSecondFactor', { body: { code: old, kind: 'totp' } });
        assert.equal(answer.code, 'wrong_credentials');
      }
      for (const [name, value] of pending) again.cookies.set(name, value);
      const late = await again.call('signInSecondFactor', { body: { code, kind: 'totp' } });
      assert.equal(late.code, 'sign_in_required');
    });

    test('each recovery code opens the way once, however it is typed', async () => {
      const [first = '', second = ''] = codes;
      const half = place.browser();
      await half.ok('signIn', { body: { email, password } });
      const kind = 'recovery';
      assert.equal(
        (await half.call('signInSecondFactor', { body: { code: 'aaaa-aaaa-aaaa-aaaa', kind } })).code,
        'wrong_credentials',
      );
      const typed = ` ${first.toUpperCase().replaceAll('-', ' ')}`;
      await half.ok('signInSecondFactor', { body: { code: typed, kind } });
      const again = [place.browser(), place.browser()];
      for (const one of again) await one.ok('signIn', { body: { email, password } });
      assert.equal(
        (await again[0]?.call('signInSecondFactor', { body: { code: first, kind } }))?.code,
        'wrong_credentials',
      );
      // Two at once with one code: one of them is in.
      const both = await Promise.all(
        again.map((one) => one.call('signInSecondFactor', { body: { code: second, kind } })),
      );
      assert.deepEqual(
        both.map(({ status }) => status).toSorted((a, b) => a - b),
        [200, 403],
      );
      const rows = await place.database.kysely.selectFrom('recovery_codes').selectAll().execute();
      assert.equal(rows.length, 8);
      for (const code of codes) assert.equal(JSON.stringify(rows).includes(code.replaceAll('-', '')), false);
    });

    test('new recovery codes take the place of the old ones', async () => {
      assert.equal((await browser.call('renewRecoveryCodes', { body: {} })).code, 'wrong_credentials');
      const made = await browser.ok('renewRecoveryCodes', { body: { password } });
      const half = place.browser();
      await half.ok('signIn', { body: { email, password } });
      const old = await half.call('signInSecondFactor', { body: { code: codes[5], kind: 'recovery' } });
      assert.equal(old.code, 'wrong_credentials');
      await half.ok('signInSecondFactor', { body: { code: made.recovery_codes[0], kind: 'recovery' } });
    });

    test('who guesses codes is stopped, from wherever', async () => {
      const body = { code: '000000', kind: 'totp' };
      const answers: (string | null)[] = [];
      for (let n = 0; n < 12; n++) {
        const guesser = place.browser();
        await guesser.ok('signIn', { body: { email, password } });
        answers.push((await guesser.call('signInSecondFactor', { body })).code);
      }
      assert.equal(answers[0], 'wrong_credentials');
      assert.equal(answers.at(-1), 'too_many_attempts');
      await place.database.kysely.deleteFrom('attempts').execute();
    });

    test('it takes the password to end it, and then a password is enough', async () => {
      assert.equal((await browser.call('endTwoFactor', { body: {} })).code, 'wrong_credentials');
      await browser.ok('endTwoFactor', { body: { password } });
      assert.deepEqual(await place.browser().ok('signIn', { body: { email, password } }), {
        status: 'signed_in',
      });
      assert.equal((await browser.call('renewRecoveryCodes', { body: { password } })).code, 'conflict');
      const audit = (await place.audit()).map((line) => line.split(' ')[0]);
      for (const action of [
        'begin_two_factor',
        'renew_recovery_codes',
        'end_two_factor',
        'sign_in_refused',
      ]) {
        assert.ok(audit.includes(`person.${action}`), action);
      }
    });
  });
}
