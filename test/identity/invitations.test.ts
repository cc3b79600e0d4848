import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { addToAccounts } from '../accounts/memberships.ts';
import { runCli } from '../harness.ts';
import { testDatabases } from '../support/servers.ts';
import { startIdentityFixture, tokenOf, type Browser, type IdentityFixture } from './fixture.ts';

const PASSWORD = 'a password of theirs';

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let fixture: IdentityFixture;
    let operator: Browser;
    let accountId = '';
    before(async () => {
      fixture = await startIdentityFixture(kind);
      operator = await fixture.operator();
      accountId = (await operator.ok('createAccount', { body: { name: 'Acme' } })).id;
    });
    after(() => fixture[Symbol.asyncDispose]());

    /** Creates an invitation and returns the token of its link. */
    async function invite(by: Browser, email: string, role = 'member'): Promise<string> {
      const created = await by.ok('createInvitation', { body: { account_id: accountId, email, role } });
      assert.ok(created.link.startsWith(`${fixture.test.url}/invitation#`));
      assert.equal(created.mailed, false);
      return tokenOf(created.link);
    }

    test('a new user accepts with a name and a password, and is signed in', async () => {
      const token = await invite(operator, ' Zoe@Example.com', 'owner');
      const browser = fixture.browser();
      const look = await browser.ok('getInvitation', { body: { token } });
      assert.deepEqual(
        { ...look, expires_at: null },
        {
          email: 'zoe@example.com',
          account_name: 'Acme',
          role: 'owner',
          expires_at: null,
          known: false,
        },
      );
      for (const [body, param] of [
        [{ token }, 'name'],
        [{ token, name: 'Zoe' }, 'password'],
        [{ token, name: 'Zoe', password: 'short' }, 'password'],
      ] as const) {
        assert.equal((await browser.call('acceptInvitation', { body })).param, param);
      }
      const body = { token, name: 'Zoe', password: PASSWORD };
      assert.deepEqual(await browser.ok('acceptInvitation', { body }), { account_id: accountId });
      const session = await browser.ok('getSession');
      assert.deepEqual(
        [session.user?.email, session.user?.operator, session.accounts.map(({ role }) => role)],
        ['zoe@example.com', false, ['owner']],
      );
      for (const operation of ['getInvitation', 'acceptInvitation'] as const) {
        const used = await fixture.browser().call(operation, { body: { token } });
        assert.equal(used.code, 'invalid_link');
      }
      const stored = await fixture.database.kysely.selectFrom('invitations').selectAll().execute();
      assert.deepEqual(stored, []);
    });

    test('only owners of the account can invite and withdraw', async () => {
      const owner = fixture.browser();
      await owner.ok('signIn', { body: { email: 'zoe@example.com', password: PASSWORD } });
      const token = await invite(owner, 'max@example.com');
      const member = fixture.browser();
      await member.ok('acceptInvitation', { body: { token, name: 'Max', password: PASSWORD } });
      const values = { account_id: accountId, email: 'x@example.com', role: 'member' };
      assert.equal((await member.call('createInvitation', { body: values })).code, 'owner_required');
      const open = await invite(owner, 'eve@example.com');
      const [listed] = (await owner.ok('listInvitations', { query: { account_id: accountId } })).data;
      assert.equal(listed?.email, 'eve@example.com');
      assert.equal(JSON.stringify(listed).includes(open), false);
      const params = { id: listed.id };
      assert.equal((await member.call('withdrawInvitation', { params })).code, 'owner_required');
      // Other accounts are not found.
      for (const one of [owner, member]) {
        const other = { ...values, account_id: 'default' };
        assert.equal((await one.call('createInvitation', { body: other })).code, 'not_found');
        const query = { account_id: 'default' };
        assert.equal((await one.call('listInvitations', { query })).code, 'not_found');
      }
      await owner.ok('withdrawInvitation', { params });
      assert.equal((await owner.call('withdrawInvitation', { params })).code, 'not_found');
      const late = await fixture.browser().call('getInvitation', { body: { token: open } });
      assert.equal(late.code, 'invalid_link');
    });

    test('a new invitation to the same address replaces the previous one, and expires', async () => {
      const first = await invite(operator, 'ann@example.com');
      const second = await invite(operator, 'ann@example.com', 'owner');
      const browser = fixture.browser();
      assert.equal((await browser.call('getInvitation', { body: { token: first } })).code, 'invalid_link');
      assert.equal((await browser.ok('getInvitation', { body: { token: second } })).role, 'owner');
      await fixture.database.kysely
        .updateTable('invitations')
        .set({ expires_at: Date.now() - 1 } as never) // The type does not allow this column to be updated.
        .execute();
      assert.equal((await browser.call('getInvitation', { body: { token: second } })).code, 'invalid_link');
    });

    test('an invitation to one account too many is refused, and stays', async () => {
      const token = await invite(operator, 'many@example.com');
      const body = { token, name: 'Many', password: PASSWORD };
      const browser = fixture.browser();
      await browser.ok('acceptInvitation', { body });
      const { user } = await browser.ok('getSession');
      await addToAccounts(fixture.database, user?.id ?? '', 999);
      const other = (await operator.ok('createAccount', { body: { name: 'Other' } })).id;
      const values = { account_id: other, email: 'many@example.com', role: 'member' };
      const { link } = await operator.ok('createInvitation', { body: values });
      const refused = await browser.call('acceptInvitation', { body: { token: tokenOf(link) } });
      assert.equal(refused.code, 'conflict');
      const { data } = await operator.ok('listInvitations', { query: { account_id: other } });
      assert.equal(data.length, 1);
    });

    test('of concurrent invitations of the same address, one stays', async () => {
      const body = { account_id: 'default', email: 'twice@example.com', role: 'member' };
      const created = await Promise.all(
        Array.from({ length: 8 }, () => operator.ok('createInvitation', { body })),
      );
      const looks = await Promise.all(
        created.map(({ link }) =>
          fixture.browser().call('getInvitation', { body: { token: tokenOf(link) } }),
        ),
      );
      assert.equal(looks.filter(({ status }) => status === 200).length, 1);
    });

    test('of concurrent acceptances for a new user by different links, the others are a conflict', async () => {
      const email = 'new@example.com';
      const links = [];
      for (const name of ['one', 'two', 'three', 'four']) {
        const { id } = await operator.ok('createAccount', { body: { name } });
        const body = { account_id: id, email, role: 'member' };
        links.push((await operator.ok('createInvitation', { body })).link);
      }
      const responses = await Promise.all(
        links.map((link) =>
          fixture.browser().call('acceptInvitation', {
            body: { token: tokenOf(link), name: 'New', password: PASSWORD },
          }),
        ),
      );
      const refusals = responses.filter(({ status }) => status !== 200);
      assert.equal(refusals.length, links.length - 1);
      for (const { code } of refusals) assert.match(code ?? '', /^(conflict|sign_in_required)$/);
    });

    test('a user who accepted an invitation from an owner becomes an operator only explicitly', async () => {
      const token = await invite(operator, 'owner@example.com', 'owner');
      const owner = fixture.browser();
      await owner.ok('acceptInvitation', { body: { token, name: 'Owen', password: PASSWORD } });
      const email = 'ceo@example.com';
      const squatted = await invite(owner, email);
      const squatter = fixture.browser();
      await squatter.ok('acceptInvitation', { body: { token: squatted, name: 'CEO', password: PASSWORD } });
      const { data } = await operator.ok('listUsers');
      const user = data.find((one) => one.email === email);
      assert.ok(user);
      assert.equal(user.email_verified, false);
      assert.equal(data.find((one) => one.email === 'owner@example.com')?.email_verified, true);
      const params = { id: user.id };
      const refused = await operator.call('changeUser', { params, body: { operator: true } });
      assert.deepEqual([refused.status, refused.code], [409, 'email_not_verified']);
      const run = (...args: string[]) => runCli(['users', ...args], fixture.test.env);
      assert.match((await run('make-operator', email)).stderr, /--allow-unverified/);
      assert.equal((await squatter.ok('getSession')).user?.operator, false);
      assert.match((await run('list')).stdout, /ceo@example\.com +no +no/);
      assert.equal((await run('make-operator', email, '--allow-unverified')).code, 0);
      await operator.ok('changeUser', { params, body: { operator: false } });
      await operator.ok('changeUser', { params, body: { operator: true, allow_unverified: true } });
      assert.equal((await squatter.ok('getSession')).user?.operator, true);
    });

    test('an existing user must sign in to accept, and no one else can accept', async () => {
      const { id } = await operator.ok('createAccount', { body: { name: 'Second' } });
      const body = { account_id: id, email: 'max@example.com', role: 'member' };
      const token = tokenOf((await operator.ok('createInvitation', { body })).link);
      const anonymous = fixture.browser();
      assert.equal((await anonymous.ok('getInvitation', { body: { token } })).known, true);
      const accept = { body: { token, name: 'Eve', password: PASSWORD } };
      assert.equal((await anonymous.call('acceptInvitation', accept)).code, 'sign_in_required');
      assert.equal((await operator.call('acceptInvitation', accept)).code, 'sign_in_required');
      const max = fixture.browser();
      await max.ok('signIn', { body: { email: 'max@example.com', password: PASSWORD } });
      await max.ok('acceptInvitation', { body: { token } });
      const { accounts } = await max.ok('getSession');
      assert.deepEqual(accounts.map(({ name }) => name).toSorted(), ['Acme', 'Second']);
      const again = await operator.call('createInvitation', { body });
      assert.deepEqual([again.code, again.param], ['conflict', 'email']);
    });

    test('a user created by an operator can set a password only through an invitation from an operator', async () => {
      const created = { name: 'Ina', email: 'ina@example.com' };
      await operator.ok('createUser', { body: created });
      const owner = fixture.browser();
      await owner.ok('signIn', { body: { email: 'zoe@example.com', password: PASSWORD } });
      const ownerToken = await invite(owner, created.email);
      const accept = { body: { token: ownerToken, name: 'Zoe again', password: PASSWORD } };
      assert.equal((await fixture.browser().call('acceptInvitation', accept)).code, 'sign_in_required');
      const token = await invite(operator, created.email);
      const ina = fixture.browser();
      assert.equal((await ina.ok('getInvitation', { body: { token } })).known, false);
      await ina.ok('acceptInvitation', { body: { token, name: 'Ina', password: PASSWORD } });
      assert.equal((await ina.ok('getSession')).user?.email, created.email);
    });

    test('invitations are in the audit log, without names and addresses', async () => {
      const audit = await fixture.database.kysely.selectFrom('audit').selectAll().execute();
      const actions = new Set(audit.map(({ action }) => action));
      for (const action of ['create', 'accept', 'withdraw']) assert.ok(actions.has(`invitation.${action}`));
      assert.doesNotMatch(JSON.stringify(audit), /@example\.com|Zoe|Max/);
    });

    test('invitations need a valid address and an open account', async () => {
      const { id } = await operator.ok('createAccount', { body: { name: 'Closed' } });
      await operator.ok('changeAccount', { params: { id }, body: { status: 'closed' } });
      for (const [account, email, code, param] of [
        [accountId, 'no address', 'invalid_value', 'email'],
        ['nothing', 'a@example.com', 'not_found', 'id'],
        [id, 'a@example.com', 'conflict', 'account_id'],
      ] as const) {
        const body = { account_id: account, email, role: 'member' };
        const response = await operator.call('createInvitation', { body });
        assert.deepEqual([response.code, response.param], [code, param]);
      }
    });
  });
}
