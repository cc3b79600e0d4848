import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { runCli } from '../harness.ts';
import { testDatabases } from '../support/servers.ts';
import {
  appCode,
  OPERATOR,
  startIdentityFixture,
  tokenOf,
  type Browser,
  type IdentityFixture,
} from './fixture.ts';

const { email } = OPERATOR;
let { password } = OPERATOR;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let fixture: IdentityFixture;
    let operator: Browser;
    before(async () => {
      password = OPERATOR.password;
      fixture = await startIdentityFixture(kind);
      operator = await fixture.operator();
    });
    after(() => fixture[Symbol.asyncDispose]());

    const signIn = async (): Promise<Browser> => {
      const browser = fixture.browser();
      await browser.ok('signIn', { body: { email, password } });
      return browser;
    };

    test('users can change their name', async () => {
      assert.equal((await operator.call('changeMe', { body: { name: ' ' } })).param, 'name');
      assert.equal((await operator.ok('changeMe', { body: { name: ' Olga K. ' } })).name, 'Olga K.');
      assert.equal((await operator.ok('getSession')).user?.name, 'Olga K.');
    });

    test('a new password ends every other session and renews this one', async () => {
      const other = await signIn();
      const before = new Map(operator.cookies);
      const wrong = { current_password: 'not this one', new_password: 'a new password' };
      const response = await operator.call('changePassword', { body: wrong });
      assert.deepEqual([response.code, response.param], ['wrong_credentials', 'current_password']);
      const none = await operator.call('changePassword', { body: { new_password: 'a new password' } });
      assert.equal(none.code, 'wrong_credentials');
      const body = { current_password: password, new_password: 'a new password' };
      await operator.ok('changePassword', { body });
      assert.notDeepEqual(operator.cookies, before);
      assert.equal((await operator.ok('getSession')).user?.email, email);
      assert.equal((await other.ok('getSession')).user, null);
      const thief = fixture.browser();
      for (const [name, value] of before) thief.cookies.set(name, value);
      assert.equal((await thief.ok('getSession')).user, null);
      assert.equal((await thief.call('signIn', { body: { email, password } })).code, 'wrong_credentials');
      password = 'a new password';
    });

    test('confirming a change with a wrong password is limited', async () => {
      await using other = await startIdentityFixture(kind);
      const user = await other.operator();
      const codes: (string | null)[] = [];
      for (let n = 0; n < 12; n++) {
        codes.push((await user.call('deleteMe', { body: { password: `guess ${n}` } })).code);
      }
      assert.equal(codes[0], 'wrong_credentials');
      assert.equal(codes.at(-1), 'too_many_attempts');
    });

    test('users can list their sessions and end one or all others', async () => {
      const one = await signIn();
      await signIn();
      const { data } = await operator.ok('listSessions');
      assert.equal(data.length, 3);
      assert.equal(data.filter(({ current }) => current).length, 1);
      const { data: seen } = await one.ok('listSessions');
      const id = seen.find(({ current }) => current)?.id ?? '';
      const body = { account_id: 'default', email: 'zoe@example.com', role: 'member' };
      const token = tokenOf((await operator.ok('createInvitation', { body })).link);
      const zoe = fixture.browser();
      await zoe.ok('acceptInvitation', { body: { token, name: 'Zoe', password } });
      assert.equal((await zoe.call('endSession', { params: { id } })).code, 'not_found');
      await operator.ok('endSession', { params: { id } });
      assert.equal((await one.ok('getSession')).user, null);
      await operator.ok('endOtherSessions');
      assert.equal((await operator.ok('listSessions')).data.length, 1);
      assert.equal((await zoe.ok('getSession')).user?.name, 'Zoe');
    });

    test('the last operator cannot be removed until there is another one', async () => {
      const users = (await operator.ok('listUsers')).data;
      const idOf = (name: string) => users.find((user) => user.name.startsWith(name))?.id ?? '';
      const mine = { params: { id: idOf('Olga') } };
      for (const response of [
        await operator.call('changeUser', { ...mine, body: { operator: false } }),
        await operator.call('deleteUser', mine),
        await operator.call('deleteMe', { body: { password } }),
      ]) {
        assert.deepEqual([response.status, response.code], [409, 'last_operator']);
      }
      const zoe = { params: { id: idOf('Zoe') }, body: { operator: true } };
      assert.equal((await operator.ok('changeUser', zoe)).operator, true);
      await operator.ok('changeUser', zoe);
      await operator.ok('changeUser', { ...mine, body: { operator: false } });
      assert.equal((await operator.call('listUsers')).code, 'admin_required');
      const flags = (await fixture.audit()).filter((line) => line.includes('make_operator'));
      assert.deepEqual(
        flags.map((line) => line.split(' ')[0]),
        ['user.make_operator', 'user.make_operator', 'user.unmake_operator'],
      );
    });

    test('users can delete themselves, and the accounts of which they are members are kept', async () => {
      // Zoe is a member of the account that Olga owns.
      assert.equal((await operator.call('deleteMe', { body: { password } })).code, 'last_owner');
      const [zoe] = await fixture.database.kysely
        .selectFrom('users')
        .where('name', '=', 'Zoe')
        .select('id')
        .execute();
      await operator.ok('setMember', {
        params: { id: 'default', user_id: zoe?.id ?? '' },
        body: { role: 'owner' },
      });
      await operator.ok('deleteMe', { body: { password } });
      assert.equal(operator.cookies.size, 0);
      assert.equal((await operator.call('signIn', { body: { email, password } })).code, 'wrong_credentials');
      const { kysely } = fixture.database;
      const left = await kysely.selectFrom('users').select('name').execute();
      assert.deepEqual(
        left.map(({ name }) => name),
        ['Zoe'],
      );
      assert.equal((await kysely.selectFrom('sessions').selectAll().execute()).length, 1);
      assert.equal((await kysely.selectFrom('accounts').selectAll().execute()).length, 1);
    });

    test('the command line restores access for users who are locked out', async () => {
      const zoe = fixture.browser();
      await zoe.ok('signIn', { body: { email: 'zoe@example.com', password } });
      const { uri } = await zoe.ok('beginTwoFactor', { body: { password } });
      await zoe.ok('confirmTwoFactor', { body: { code: appCode(uri) } });
      const run = (...args: string[]) => runCli(['users', ...args], fixture.test.env);
      const [listed] = JSON.parse((await run('list', '--json')).stdout) as Record<string, unknown>[];
      assert.deepEqual(
        [listed?.email, listed?.operator, listed?.two_factor],
        ['zoe@example.com', true, true],
      );
      assert.equal((await run('reset-second-factor', 'Zoe@example.com')).code, 0);
      assert.equal((await zoe.ok('getSession')).user, null);
      assert.deepEqual(await zoe.ok('signIn', { body: { email: 'zoe@example.com', password } }), {
        status: 'signed_in',
      });
      const { stdout } = await run('password-link', 'zoe@example.com', '--url', fixture.test.url);
      const body = { token: tokenOf(stdout.trim()), password: 'set by a link' };
      await fixture.browser().ok('resetPassword', { body });
      await zoe.ok('signIn', { body: { email: 'zoe@example.com', password: 'set by a link' } });
      const last = await run('unmake-operator', 'zoe@example.com');
      assert.equal(last.code, 1);
      assert.match(last.stderr, /last operator/);
      assert.equal((await run('make-operator', 'nobody@example.com')).code, 1);
      const setUp = await runCli(['setup-link'], fixture.test.env);
      assert.deepEqual([setUp.code, setUp.stdout], [1, '']);
      assert.match(setUp.stderr, /already has an operator/);
    });
  });
}
