import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { testDatabases } from '../servers.ts';
import { startPlace, tokenOf, type Browser, type Place } from './browser.ts';

const PASSWORD = 'a password of theirs';

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let place: Place;
    let operator: Browser;
    let accountId = '';
    before(async () => {
      place = await startPlace(kind);
      operator = await place.operator();
      accountId = (await operator.ok('createAccount', { body: { name: 'Acme' } })).id;
    });
    after(() => place[Symbol.asyncDispose]());

    /** Invites somebody: the token of the link. */
    async function invite(by: Browser, email: string, role = 'member'): Promise<string> {
      const made = await by.ok('createInvitation', { body: { account_id: accountId, email, role } });
      assert.ok(made.link.startsWith(`${place.test.url}/invitation#`));
      assert.equal(made.mailed, false);
      return tokenOf(made.link);
    }

    test('somebody new accepts with a name and a password, and is signed in', async () => {
      const token = await invite(operator, ' Zoe@Example.com', 'owner');
      const browser = place.browser();
      const look = await browser.ok('lookAtInvitation', { body: { token } });
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
        [session.person?.email, session.person?.operator, session.accounts.map(({ role }) => role)],
        ['zoe@example.com', false, ['owner']],
      );
      for (const operation of ['lookAtInvitation', 'acceptInvitation'] as const) {
        const used = await place.browser().call(operation, { body: { token } });
        assert.equal(used.code, 'invalid_link');
      }
      const kept = await place.database.kysely.selectFrom('invitations').selectAll().execute();
      assert.deepEqual(kept, []);
    });

    test('an owner invites and withdraws, a member and a stranger do neither', async () => {
      const owner = place.browser();
      await owner.ok('signIn', { body: { email: 'zoe@example.com', password: PASSWORD } });
      const token = await invite(owner, 'max@example.com');
      const member = place.browser();
      await member.ok('acceptInvitation', { body: { token, name: 'Max', password: PASSWORD } });
      const asked = { account_id: accountId, email: 'x@example.com', role: 'member' };
      assert.equal((await member.call('createInvitation', { body: asked })).code, 'owner_required');
      const open = await invite(owner, 'eve@example.com');
      const [listed] = (await owner.ok('listInvitations', { query: { account_id: accountId } })).data;
      assert.equal(listed?.email, 'eve@example.com');
      assert.equal(JSON.stringify(listed).includes(open), false);
      const params = { id: listed.id };
      assert.equal((await member.call('withdrawInvitation', { params })).code, 'owner_required');
      // Of another account they hear nothing.
      for (const one of [owner, member]) {
        const other = { ...asked, account_id: 'default' };
        assert.equal((await one.call('createInvitation', { body: other })).code, 'not_found');
        const query = { account_id: 'default' };
        assert.equal((await one.call('listInvitations', { query })).code, 'not_found');
      }
      await owner.ok('withdrawInvitation', { params });
      assert.equal((await owner.call('withdrawInvitation', { params })).code, 'not_found');
      const late = await place.browser().call('lookAtInvitation', { body: { token: open } });
      assert.equal(late.code, 'invalid_link');
    });

    test('another invitation of the same address takes the place of the first, and it ends by itself', async () => {
      const first = await invite(operator, 'ann@example.com');
      const second = await invite(operator, 'ann@example.com', 'owner');
      const browser = place.browser();
      assert.equal((await browser.call('lookAtInvitation', { body: { token: first } })).code, 'invalid_link');
      assert.equal((await browser.ok('lookAtInvitation', { body: { token: second } })).role, 'owner');
      await place.database.kysely
        .updateTable('invitations')
        .set({ expires_at: Date.now() - 1 } as never) // Never changed but here.
        .execute();
      assert.equal(
        (await browser.call('lookAtInvitation', { body: { token: second } })).code,
        'invalid_link',
      );
    });

    test('somebody who is known accepts when they are signed in, and nobody else does for them', async () => {
      const { id } = await operator.ok('createAccount', { body: { name: 'Second' } });
      const body = { account_id: id, email: 'max@example.com', role: 'member' };
      const token = tokenOf((await operator.ok('createInvitation', { body })).link);
      const nobody = place.browser();
      assert.equal((await nobody.ok('lookAtInvitation', { body: { token } })).known, true);
      const taken = { body: { token, name: 'Eve', password: PASSWORD } };
      assert.equal((await nobody.call('acceptInvitation', taken)).code, 'sign_in_required');
      assert.equal((await operator.call('acceptInvitation', taken)).code, 'sign_in_required');
      const max = place.browser();
      await max.ok('signIn', { body: { email: 'max@example.com', password: PASSWORD } });
      await max.ok('acceptInvitation', { body: { token } });
      const { accounts } = await max.ok('getSession');
      assert.deepEqual(accounts.map(({ name }) => name).toSorted(), ['Acme', 'Second']);
      const again = await operator.call('createInvitation', { body });
      assert.deepEqual([again.code, again.param], ['conflict', 'email']);
    });

    test('somebody whom an operator has made begins by the link of an operator, and by no other', async () => {
      const made = { name: 'Ina', email: 'ina@example.com' };
      await operator.ok('createPerson', { body: made });
      const owner = place.browser();
      await owner.ok('signIn', { body: { email: 'zoe@example.com', password: PASSWORD } });
      const kept = await invite(owner, made.email);
      const taken = { body: { token: kept, name: 'Zoe again', password: PASSWORD } };
      assert.equal((await place.browser().call('acceptInvitation', taken)).code, 'sign_in_required');
      const token = await invite(operator, made.email);
      const ina = place.browser();
      assert.equal((await ina.ok('lookAtInvitation', { body: { token } })).known, false);
      await ina.ok('acceptInvitation', { body: { token, name: 'Ina', password: PASSWORD } });
      assert.equal((await ina.ok('getSession')).person?.email, made.email);
    });

    test('who invites and who accepts is written down, without a name or an address', async () => {
      const audit = await place.database.kysely.selectFrom('audit').selectAll().execute();
      const actions = new Set(audit.map(({ action }) => action));
      for (const action of ['create', 'accept', 'withdraw']) assert.ok(actions.has(`invitation.${action}`));
      assert.doesNotMatch(JSON.stringify(audit), /@example\.com|Zoe|Max/);
    });

    test('invitations to nobody, to nothing and to what is closed are refused', async () => {
      const { id } = await operator.ok('createAccount', { body: { name: 'Closed' } });
      await operator.ok('changeAccount', { params: { id }, body: { status: 'closed' } });
      for (const [account, email, code, param] of [
        [accountId, 'no address', 'invalid_value', 'email'],
        ['nothing', 'a@example.com', 'not_found', 'id'],
        [id, 'a@example.com', 'conflict', 'account_id'],
      ] as const) {
        const body = { account_id: account, email, role: 'member' };
        const answer = await operator.call('createInvitation', { body });
        assert.deepEqual([answer.code, answer.param], [code, param]);
      }
    });
  });
}
