import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createAccount } from '../../src/accounts/accounts.ts';
import { listAudit, type Actor } from '../../src/accounts/audit.ts';
import { everyItem } from '../../src/accounts/page.ts';
import {
  accountsOf,
  createUser,
  deleteUser,
  listMembers,
  listUsers,
  ownerAddresses,
  removeMember,
  setMember,
} from '../../src/accounts/users.ts';
import type { Database } from '../../src/database/database.ts';
import { testDatabases } from '../support/servers.ts';
import { addToAccounts } from './memberships.ts';
import { refused } from './refused.ts';

const by: Actor = { id: 'key:key_1', ip: null };

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('a user has a unique email address in lower case', async () => {
      await using database = await kind.open();
      const zoe = await createUser(database, { name: ' Zoë ', email: ' Zoe@Example.COM ' }, by);
      assert.match(zoe.id, /^user_[0-9a-f]{24}$/);
      assert.deepEqual([zoe.name, zoe.email], ['Zoë', 'zoe@example.com']);
      for (const email of ['zoe@example.com', 'ZOE@EXAMPLE.COM']) {
        await assert.rejects(createUser(database, { name: 'a', email }, by), refused('conflict', 'email'));
      }
      for (const email of [
        '',
        'zoe',
        '@',
        'a@b c',
        'a\n@b',
        'a@b@c',
        'x,y@b',
        'a"b@c',
        'g:a@b',
        'a@b.c,d.e',
        'a<b@c',
      ]) {
        await assert.rejects(
          createUser(database, { name: 'a', email }, by),
          refused('invalid_value', 'email'),
        );
      }
      await assert.rejects(
        createUser(database, { name: '', email: 'a@b' }, by),
        refused('invalid_value', 'name'),
      );
      await createUser(database, { name: 'Max', email: 'max@example.com' }, by);
      const { items, nextCursor } = await listUsers(database, { limit: 1 });
      assert.deepEqual(items, [zoe]);
      assert.deepEqual(
        (await listUsers(database, { cursor: nextCursor })).items.map(({ name }) => name),
        ['Max'],
      );
    });

    test('only owners whose address is confirmed are told about their account', async () => {
      await using database = await kind.open();
      const { id: accountId } = await createAccount(database, { name: 'a' }, by);
      for (const [email, role] of [
        ['owner@example.com', 'owner'],
        ['member@example.com', 'member'],
        ['unconfirmed@example.com', 'owner'],
      ] as const) {
        const { id: userId } = await createUser(database, { name: 'a', email }, by);
        await setMember(database, { accountId, userId, role }, by);
      }
      await database.kysely
        .updateTable('users')
        .set({ email_verified: 0 })
        .where('email', '=', 'unconfirmed@example.com')
        .execute();
      assert.deepEqual(await ownerAddresses(database, accountId), ['owner@example.com']);
    });

    test('a user is a member of at most 1,000 accounts', async () => {
      await using database = await kind.open();
      const { id: userId } = await createUser(database, { name: 'Zoë', email: 'zoe@example.com' }, by);
      await addToAccounts(database, userId, 999);
      const [last, other] = [
        await createAccount(database, { name: 'last' }, by),
        await createAccount(database, { name: 'other' }, by),
      ];
      await setMember(database, { accountId: last.id, userId, role: 'member' }, by);
      await assert.rejects(
        setMember(database, { accountId: other.id, userId, role: 'member' }, by),
        refused('conflict', 'user_id'),
      );
      await setMember(database, { accountId: last.id, userId, role: 'owner' }, by);
      assert.equal((await accountsOf(database, userId)).length, 1000);
    });

    test('a user has one role in an account; the role can be changed and removed', async () => {
      await using database = await kind.open();
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      const user = await createUser(database, { name: 'Zoë', email: 'zoe@example.com' }, by);
      const heir = await createUser(database, { name: 'Max', email: 'max@example.com' }, by);
      const member = await setMember(database, { accountId, userId: user.id, role: 'member' }, by);
      const owner = await setMember(database, { accountId, userId: user.id, role: 'owner' }, by);
      assert.deepEqual({ ...owner }, { ...member, role: 'owner' });
      assert.deepEqual(
        (await members(database, accountId)).map((one) => ({ ...one })),
        [owner],
      );
      assert.deepEqual(await members(database, 'default'), []);
      await setMember(database, { accountId, userId: heir.id, role: 'owner' }, by);
      await removeMember(database, { accountId, userId: user.id }, by);
      assert.deepEqual(
        (await members(database, accountId)).map(({ id }) => id),
        [heir.id],
      );
      const { items } = await listAudit(database, { subject: `user:${user.id}`, accountId });
      assert.deepEqual(items.map(({ action }) => action).sort(), [
        'member.remove',
        'member.set',
        'member.set',
      ]);
    });

    test('unknown users and accounts are a 404', async () => {
      await using database = await kind.open();
      const { id: userId } = await createUser(database, { name: 'a', email: 'a@b' }, by);
      const unknownUser = { accountId: 'default', userId: 'user_0', role: 'owner' } as const;
      await assert.rejects(setMember(database, unknownUser, by), refused('not_found', 'user_id'));
      const nowhere = { accountId: 'acct_0', userId, role: 'owner' } as const;
      await assert.rejects(setMember(database, nowhere, by), refused('not_found', 'id'));
      await assert.rejects(listMembers(database, 'acct_0'), refused('not_found', 'id'));
      await assert.rejects(
        removeMember(database, { accountId: 'default', userId }, by),
        refused('not_found', 'user_id'),
      );
      await assert.rejects(deleteUser(database, 'user_0', by), refused('not_found', 'user_id'));
    });

    test('a deleted user leaves all accounts, and only their ID stays in the audit log', async () => {
      await using database = await kind.open();
      const user = await createUser(database, { name: 'Zoë', email: 'zoe@example.com' }, by);
      const other = await createUser(database, { name: 'Max', email: 'max@example.com' }, by);
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      for (const account of [accountId, 'default']) {
        await setMember(database, { accountId: account, userId: user.id, role: 'owner' }, by);
        await setMember(database, { accountId: account, userId: other.id, role: 'owner' }, by);
      }
      await deleteUser(database, user.id, by);
      assert.deepEqual((await listUsers(database)).items, [other]);
      for (const account of [accountId, 'default']) {
        assert.deepEqual(
          (await members(database, account)).map(({ id }) => id),
          [other.id],
        );
      }
      const { items } = await listAudit(database, { subject: `user:${user.id}` });
      assert.equal(items.length, 6);
      assert.doesNotMatch(JSON.stringify(items), /Zo|example/);
      // The address can be used again.
      await createUser(database, { name: 'Zoë', email: 'zoe@example.com' }, by);
    });

    test('the last owner of an account stays an owner', async () => {
      await using database = await kind.open();
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      const ids: string[] = [];
      for (const name of ['a', 'b', 'c']) {
        const { id: userId } = await createUser(database, { name, email: `${name}@b` }, by);
        await setMember(database, { accountId, userId, role: name === 'c' ? 'member' : 'owner' }, by);
        ids.push(userId);
      }
      const [a = '', b = '', c = ''] = ids;
      const lastOwner = refused('last_owner');
      await setMember(database, { accountId, userId: b, role: 'member' }, by);
      await assert.rejects(setMember(database, { accountId, userId: a, role: 'member' }, by), lastOwner);
      await assert.rejects(removeMember(database, { accountId, userId: a }, by), lastOwner);
      await assert.rejects(deleteUser(database, a, by), lastOwner);
      await setMember(database, { accountId, userId: a, role: 'owner' }, by);
      // The last member of an account can be deleted: operators can invite another one.
      for (const userId of [b, c]) await removeMember(database, { accountId, userId }, by);
      await assert.rejects(removeMember(database, { accountId, userId: a }, by), lastOwner);
      await deleteUser(database, a, by);
      assert.deepEqual(await members(database, accountId), []);
    });

    for (const [name, leave] of [
      ['demoted', (database, member) => setMember(database, { ...member, role: 'member' }, by)],
      ['removed', (database, member) => removeMember(database, member, by)],
      ['deleted', (database, { userId }) => deleteUser(database, userId, by)],
    ] as readonly [string, (database: Database, member: Membership) => Promise<unknown>][]) {
      test(`one of two owners that are ${name} at the same time stays an owner`, async () => {
        await using database = await kind.open();
        const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
        const owners: Membership[] = [];
        for (const [email, role] of [
          ['a@b', 'owner'],
          ['b@b', 'owner'],
          ['c@b', 'member'],
        ] as const) {
          const { id: userId } = await createUser(database, { name: email, email }, by);
          await setMember(database, { accountId, userId, role }, by);
          if (role === 'owner') owners.push({ accountId, userId });
        }
        const results = await Promise.allSettled(owners.map((member) => leave(database, member)));
        assert.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
        const refusal = results.find(({ status }) => status === 'rejected');
        assert.ok(refusal?.status === 'rejected' && refused('last_owner')(refusal.reason));
        const left = await members(database, accountId);
        assert.equal(left.filter(({ role }) => role === 'owner').length, 1);
      });
    }

    test('members are listed in pages', async () => {
      await using database = await kind.open();
      for (let index = 0; index < 5; index += 1) {
        const { id } = await createUser(database, { name: 'a', email: `a${index}@b` }, by);
        await setMember(database, { accountId: 'default', userId: id, role: 'member' }, by);
      }
      const whole = await members(database, 'default');
      const first = await listMembers(database, 'default', { limit: 2 });
      const second = await listMembers(database, 'default', { limit: 2, cursor: first.nextCursor });
      const third = await listMembers(database, 'default', { limit: 2, cursor: second.nextCursor });
      assert.deepEqual([...first.items, ...second.items, ...third.items], whole);
      assert.equal(third.nextCursor, null);
    });
  });
}

interface Membership {
  accountId: string;
  userId: string;
}

function members(database: Database, accountId: string) {
  return Array.fromAsync(everyItem((page) => listMembers(database, accountId, page)));
}
