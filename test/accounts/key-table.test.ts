import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { describe, test } from 'node:test';
import { changeAccount, createAccount } from '../../src/accounts/accounts.ts';
import { listAudit, type Actor } from '../../src/accounts/audit.ts';
import {
  readAccess,
  readTags,
  changeKey,
  createKey,
  deleteExpiredPlaygroundKeys,
  deleteExpiredSecrets,
  endPreviousSecret,
  getKey,
  keyStatus,
  listKeyPage,
  MAX_PREVIOUS_MS,
  revokeKey,
  revokeKeys,
  revokePlaygroundKeysOf,
  rotateKey,
  type KeyBounds,
} from '../../src/accounts/key-table.ts';
import { KeyStore } from '../../src/accounts/keys.ts';
import { setOperator, createUser, deleteUser, removeMember, setMember } from '../../src/accounts/users.ts';
import { everyItem, type PageQuery } from '../../src/accounts/page.ts';
import { ServiceError } from '../../src/core/errors.ts';
import type { Database } from '../../src/database/database.ts';
import { keyJson } from '../../src/http/api/json.ts';
import { endSessions } from '../../src/identity/sessions.ts';
import { SILENT } from '../../src/support/log.ts';
import { testDatabases } from '../support/servers.ts';
import { refused } from './refused.ts';

const by: Actor = { id: 'cli:zoe', ip: null };

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('the models of a key are stored without duplicates, and its limits exactly', async () => {
      await using database = await kind.open();
      const limits = {
        requestsPerMinute: 5,
        usdPerMonth: '999999.999999',
        burst: { tokens: 1_000_000_000_000 },
        models: { 'a/b': { tokensPerDay: 7 } },
      };
      const { record } = await createKey(
        database,
        { name: 'a', allowedModels: ['c/d', 'a/b', 'c/d'], limits, expiresAt: Date.now() + 60_000 },
        by,
      );
      assert.deepEqual(readAccess(record), { limits, models: new Set(['c/d', 'a/b']) });
      assert.deepEqual({ ...(await getKey(database, record.id)) }, { ...record });
      const none = await createKey(database, { name: 'a', limits: {} }, by);
      assert.deepEqual([none.record.limits, none.record.allowed_models], [null, null]);
    });

    test('a page ends after a megabyte of limits or details, and the next one continues', async () => {
      await using database = await kind.open();
      const models = Array.from(
        { length: 100 },
        (_, index) => `${'n'.repeat(97)}/${'m'.repeat(98)}${100 + index}`,
      );
      const limits = { models: Object.fromEntries(models.map((model) => [model, { tokensPerDay: 1 }])) };
      for (let count = 0; count < 60; count++) {
        await createKey(database, { name: `key ${count}`, allowedModels: models, limits }, by);
      }
      const keys = (page: PageQuery) => listKeyPage(database, {}, page);
      const entries = (page: PageQuery) => listAudit(database, {}, page);
      for (const [first, read] of [
        [await keys({ limit: 1000 }), keys],
        [await entries({ limit: 1000 }), entries],
      ] as const) {
        assert.ok(JSON.stringify(first.items).length < 1_500_000);
        assert.ok(first.items.length >= 10);
        const all = await Array.fromAsync(everyItem<{ id: string }>(read));
        assert.equal(all.length, 60);
        assert.equal(new Set(all.map(({ id }) => id)).size, 60);
      }
      const names = (await Array.fromAsync(everyItem(keys))).map(({ name }) => name);
      assert.deepEqual(names.toSorted(), Array.from({ length: 60 }, (_, count) => `key ${count}`).toSorted());
    });

    test('playground keys are deleted seven days after they expire; other keys are kept', async () => {
      await using database = await kind.open();
      const now = Date.now();
      const expiresAt = now + 60_000;
      const week = 7 * 86_400_000;
      const playground = await createKey(database, { name: 'p', purpose: 'playground', expiresAt }, by);
      const api = await createKey(database, { name: 'a', expiresAt }, by);
      assert.equal(await deleteExpiredPlaygroundKeys(database, expiresAt + week), 0);
      assert.deepEqual({ ...(await getKey(database, playground.record.id)) }, { ...playground.record });
      assert.equal(await deleteExpiredPlaygroundKeys(database, expiresAt + week + 1), 1);
      await assert.rejects(getKey(database, playground.record.id), { code: 'not_found' });
      assert.deepEqual({ ...(await getKey(database, api.record.id)) }, { ...api.record });
    });

    test('changes of playground keys do not conflict with the removal of their user', async () => {
      await using database = await kind.open();
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      const { id: userId } = await createUser(database, { name: 'Zoë', email: 'zoe@example.com' }, by);
      const expiresAt = Date.now() + 60_000;
      for (let round = 0; round < 3; round++) {
        await setMember(database, { accountId, userId, role: 'member' }, by);
        const keys = await Promise.all(
          Array.from({ length: 20 }, (_, count) =>
            createKey(
              database,
              { name: `${count}`, purpose: 'playground', accountId, expiresAt },
              { id: `user:${userId}`, ip: null },
            ),
          ),
        );
        const ids = keys.map(({ record }) => record.id).toSorted();
        // A revoked key refuses changes, which depends on who is first; nothing may wait until the database gives up.
        const changes = ids.toReversed().map((id) =>
          changeKey(database, id, () => ({ name: 'renamed' }), by).catch((error: unknown) => {
            refused('conflict', 'id')(error);
          }),
        );
        await Promise.all([removeMember(database, { accountId, userId }, by), ...changes]);
        for (const id of ids) assert.notEqual((await getKey(database, id))?.revoked_at, null);
      }
    });

    test('no playground key survives what ends its session, user, membership or author key meanwhile', async () => {
      await using database = await kind.open();
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      const expiresAt = Date.now() + 60_000;
      const end: Record<string, (userId: string, sessionId: string, keyId: string) => Promise<unknown>> = {
        session: (userId, id) =>
          database.kysely
            .transaction()
            .execute((transaction) => endSessions(transaction, userId, { id }, by)),
        user: (userId) => deleteUser(database, userId, by),
        membership: (userId) => removeMember(database, { accountId, userId }, by),
        key: (_userId, _sessionId, keyId) => revokeKey(database, keyId, by),
      };
      for (const [what, ends] of Object.entries(end)) {
        const email = `${what}@example.com`;
        const { id: userId } = await createUser(database, { name: 'Zoë', email }, by);
        await setMember(database, { accountId, userId, role: 'member' }, by);
        const sessionId = await signIn(database, userId);
        const author = await createKey(database, { name: what, kind: 'admin' }, by);
        const ofKey = what === 'key';
        const create = () =>
          createKey(
            database,
            { name: what, purpose: 'playground', accountId, expiresAt, ...(!ofKey && { sessionId }) },
            { id: ofKey ? `key:${author.record.id}` : `user:${userId}`, ip: null },
          );
        const created = Array.from({ length: 8 }, create);
        const ended = ends(userId, sessionId, author.record.id);
        created.push(...Array.from({ length: 8 }, create));
        await Promise.all([ended, Promise.allSettled(created)]);
        const { items } = await listKeyPage(database, { accountId, purpose: 'playground' }, { limit: 1000 });
        const live = items.filter((key) => key.name === what && keyStatus(key, Date.now()) === 'live');
        assert.equal(live.length, 0, what);
        await assert.rejects(
          create(),
          what === 'membership' ? refused('not_found', 'account_id') : { code: 'sign_in_required' },
        );
      }
    });

    test('a key that is revoked while its session ends is revoked once', async () => {
      await using database = await kind.open();
      const { id: userId } = await createUser(database, { name: 'Zoë', email: 'zoe@example.com' }, by);
      await setMember(database, { accountId: 'default', userId, role: 'member' }, by);
      const expiresAt = Date.now() + 60_000;
      for (let round = 0; round < 3; round++) {
        const sessionId = await signIn(database, userId);
        const keys = await Promise.all(
          Array.from({ length: 20 }, (_, count) =>
            createKey(database, { name: `${count}`, purpose: 'playground', sessionId, expiresAt }, by),
          ),
        );
        const ids = keys.map(({ record }) => record.id);
        await Promise.all([
          revokeKeys(database, ids, () => {}, by),
          database.kysely
            .transaction()
            .execute((transaction) => revokePlaygroundKeysOf(transaction, [sessionId], by)),
        ]);
      }
      const { items } = await listAudit(database, { action: 'key.revoke' }, { limit: 100 });
      assert.equal(items.length, 60);
    });

    test('a playground key cannot be made permanent or valid for longer, but can expire sooner', async () => {
      await using database = await kind.open();
      const expiresAt = Date.now() + 60_000;
      const { record } = await createKey(database, { name: 'p', purpose: 'playground', expiresAt }, by);
      for (const later of [null, expiresAt + 1]) {
        await assert.rejects(
          changeKey(database, record.id, () => ({ expiresAt: later }), by),
          refused('invalid_value', 'expires_at'),
        );
      }
      const change = { name: 'q', expiresAt: expiresAt - 1 };
      assert.deepEqual(
        { ...(await changeKey(database, record.id, () => change, by)) },
        {
          ...record,
          name: 'q',
          expires_at: expiresAt - 1,
        },
      );
      await assert.rejects(
        createKey(database, { name: 'p', purpose: 'playground' }, by),
        refused('invalid_value', 'expires_at'),
      );
    });

    test('the playground keys of a user end with their membership, operator rights or user', async () => {
      await using database = await kind.open();
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      const { id: other } = await createAccount(database, { name: 'other' }, by);
      const [zoe, max] = [
        await createUser(database, { name: 'Zoë', email: 'zoe@example.com' }, by),
        await createUser(database, { name: 'Max', email: 'max@example.com' }, by),
      ];
      for (const { id: userId } of [zoe, max]) {
        for (const account of [accountId, other]) {
          await setMember(database, { accountId: account, userId, role: 'member' }, by);
        }
        await setOperator(database, userId, { operator: true }, by);
      }
      const create = async (user: { id: string }, account: string, purpose: 'api' | 'playground') => {
        const newKey = { name: purpose, purpose, accountId: account, expiresAt: Date.now() + 60_000 };
        return (await createKey(database, newKey, { id: `user:${user.id}`, ip: null })).record.id;
      };
      const keys = {
        removed: await create(zoe, accountId, 'playground'),
        api: await create(zoe, accountId, 'api'),
        others: await create(max, accountId, 'playground'),
        member: await create(zoe, other, 'playground'),
        operator: await create(zoe, 'default', 'playground'),
      };
      const revoked = async () => {
        const found = Object.entries(keys).map(async ([name, id]) =>
          (await getKey(database, id)).revoked_at === null ? [] : [name],
        );
        return (await Promise.all(found)).flat();
      };
      await setOperator(database, zoe.id, { operator: false }, by);
      assert.deepEqual(await revoked(), ['operator']);
      await removeMember(database, { accountId, userId: zoe.id }, by);
      assert.deepEqual(await revoked(), ['removed', 'operator']);
      const { items } = await listAudit(database, { subject: `key:${keys.removed}`, action: 'key.revoke' });
      assert.deepEqual(
        items.map(({ actor, account_id: account }) => [actor, account]),
        [[by.id, accountId]],
      );
      await removeMember(database, { accountId, userId: max.id }, by);
      assert.deepEqual(await revoked(), ['removed', 'operator'], 'an operator has access to all accounts');
      await deleteUser(database, zoe.id, by);
      assert.deepEqual(await revoked(), ['removed', 'member', 'operator']);
    });

    test('revoking a key ends the playground keys that it created', async () => {
      await using database = await kind.open();
      const { record: admin } = await createKey(database, { name: 'a', kind: 'admin' }, by);
      const expiresAt = Date.now() + 60_000;
      const { record } = await createKey(
        database,
        { name: 'p', purpose: 'playground', expiresAt },
        { id: `key:${admin.id}`, ip: null },
      );
      await revokeKey(database, admin.id, by);
      assert.notEqual((await getKey(database, record.id)).revoked_at, null);
    });

    test('a key is changed field by field, and the audit log has the old and new values', async () => {
      await using database = await kind.open();
      const { record } = await createKey(database, { name: 'a', limits: { tokensPerDay: 5 } }, by);
      const change = (wanted: object) => changeKey(database, record.id, () => wanted, by);
      const expiresAt = Date.now() + 60_000;
      assert.deepEqual(
        { ...(await change({ name: ' b ', expiresAt })) },
        {
          ...record,
          name: 'b',
          expires_at: expiresAt,
        },
      );
      const limits = { tokensPerDay: 6 };
      const changed = await change({ limits, allowedModels: ['a/b'] });
      assert.deepEqual(
        { ...changed },
        {
          ...record,
          name: 'b',
          expires_at: expiresAt,
          limits: JSON.stringify(limits),
          allowed_models: '["a/b"]',
        },
      );
      assert.deepEqual(
        { ...(await change({ name: 'b', limits, allowedModels: ['a/b'], expiresAt })) },
        { ...changed },
      );
      assert.deepEqual({ ...(await change({})) }, { ...changed });
      assert.deepEqual(
        { ...(await change({ expiresAt: null, limits: null, allowedModels: null, name: 'a' })) },
        {
          ...record,
          limits: null,
        },
      );
      const iso = new Date(expiresAt).toISOString();
      const { items } = await listAudit(database, { subject: `key:${record.id}`, action: 'key.update' });
      assert.deepEqual(
        new Set(items.map(({ detail }): unknown => JSON.parse(detail))),
        new Set([
          { name: { from: 'a', to: 'b' }, expires_at: { from: null, to: iso } },
          {
            allowed_models: { from: null, to: ['a/b'] },
            limits: { from: { tokensPerDay: 5 }, to: { tokensPerDay: 6 } },
          },
          {
            name: { from: 'b', to: 'a' },
            expires_at: { from: iso, to: null },
            allowed_models: { from: ['a/b'], to: null },
            limits: { from: { tokensPerDay: 6 }, to: null },
          },
        ]),
      );
    });

    test('concurrent changes of a key do not overwrite each other', async () => {
      await using database = await kind.open();
      // With SQLite, a second connection would block the thread that must release the lock.
      await using other = kind.name === 'SQLite' ? null : await database.again();
      const { record } = await createKey(database, { name: 'a', limits: { tokensPerDay: 1 } }, by);
      await Promise.all(
        Array.from({ length: 10 }, (_, index) =>
          changeKey(
            index % 2 === 0 ? database : (other ?? database),
            record.id,
            (key) => ({ limits: { tokensPerDay: (readAccess(key)?.limits?.tokensPerDay ?? 0) + 1 } }),
            by,
          ),
        ),
      );
      assert.deepEqual(readAccess(await getKey(database, record.id))?.limits, { tokensPerDay: 11 });
    });

    test('an account can have a bounded number of usable keys, and create a bounded number within an hour', async () => {
      await using database = await kind.open();
      const { id: other } = await createAccount(database, { name: 'other' }, by);
      const create = (newKey: object, bounds: Partial<KeyBounds>) =>
        createKey(database, { name: 'a', ...newKey }, by, {
          maxPerAccount: 100,
          maxCreatedPerHour: 100,
          ...bounds,
        });
      const maxPerAccount = 3;
      const { record } = await create({}, { maxPerAccount });
      await create({ expiresAt: Date.now() - 1 }, { maxPerAccount });
      const expiresAt = Date.now() + 3_600_000;
      await create({ expiresAt, purpose: 'playground' }, { maxPerAccount });
      await create({ expiresAt }, { maxPerAccount });
      await assert.rejects(create({}, { maxPerAccount }), refused('conflict', 'account_id'));
      await create({ accountId: other }, { maxPerAccount });
      await revokeKey(database, record.id, by);
      await create({}, { maxPerAccount });
      // Five keys were created, and one of them is revoked.
      await assert.rejects(create({}, { maxCreatedPerHour: 5 }), (error: unknown) => {
        assert.ok(error instanceof ServiceError);
        assert.deepEqual([error.code, error.status], ['too_many_keys', 429]);
        assert.ok(error.retryAfterMs !== undefined && error.retryAfterMs > 0);
        return error.retryAfterMs <= 3_600_000;
      });
      await create({ accountId: other }, { maxCreatedPerHour: 5 });
      await create({}, { maxCreatedPerHour: 6 });
    });

    test('an expired key can be renewed only if the account has room for another usable key', async () => {
      await using database = await kind.open();
      const bounds = { maxPerAccount: 1, maxCreatedPerHour: 100 };
      const expired = await createKey(database, { name: 'a', expiresAt: Date.now() - 1 }, by, bounds);
      const { record } = await createKey(database, { name: 'b' }, by, bounds);
      const change = (wanted: object, within: KeyBounds | null = bounds) =>
        changeKey(database, expired.record.id, () => wanted, by, within);
      for (const expiresAt of [null, Date.now() + 60_000]) {
        await assert.rejects(change({ expiresAt }), refused('conflict', 'account_id'));
      }
      await change({ name: 'c', expiresAt: Date.now() - 2 });
      await revokeKey(database, record.id, by);
      assert.equal((await change({ expiresAt: null }))?.expires_at, null);
      await change({ expiresAt: Date.now() + 60_000 });
    });

    test('keys that are created at the same time do not exceed the bound', async () => {
      await using database = await kind.open();
      const bounds = { maxPerAccount: 3, maxCreatedPerHour: 100 };
      const created = await Promise.allSettled(
        Array.from({ length: 8 }, () => createKey(database, { name: 'a' }, by, bounds)),
      );
      assert.equal(created.filter(({ status }) => status === 'fulfilled').length, 3);
    });

    test('a running service applies each change of keys and accounts, and the deletion of rows', async () => {
      await using database = await kind.open();
      await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      const created: Awaited<ReturnType<typeof createKey>>[] = [];
      for (const name of ['a', 'b', 'c']) created.push(await createKey(database, { name, accountId }, by));
      const accepted = async () => {
        await keys.refresh();
        const found = await Promise.all(
          created.map(async ({ key }) => keys.authenticate(`Bearer ${key.reveal()}`)),
        );
        return found.map((key) => key?.name ?? null);
      };
      const [first, second, third] = created.map(({ record }) => record.id);
      assert.deepEqual(await accepted(), ['a', 'b', 'c']);
      await changeKey(database, String(first), () => ({ name: 'A' }), by);
      await revokeKey(database, String(second), by);
      assert.deepEqual(await accepted(), ['A', null, 'c']);
      await changeAccount(database, accountId, { status: 'suspended' }, by);
      assert.deepEqual(await accepted(), [null, null, null]);
      await changeAccount(database, accountId, { status: 'active' }, by);
      assert.deepEqual(await accepted(), ['A', null, 'c']);
      await database.kysely.deleteFrom('keys').where('id', '=', String(third)).execute();
      assert.deepEqual(await accepted(), ['A', null, null]);
      await database.kysely.transaction().execute(async (transaction) => {
        await transaction.deleteFrom('keys').where('account_id', '=', accountId).execute();
        await transaction.deleteFrom('accounts').where('id', '=', accountId).execute();
      });
      assert.deepEqual(await accepted(), [null, null, null]);
    });

    test('after a rotation, running services accept the new secret and, until it expires, the previous one', async () => {
      await using database = await kind.open();
      const clock = { unix: Date.now(), now: () => clock.unix, elapsed: () => 0 };
      const options = { maxStaleMs: 5000, clock };
      await using one = await KeyStore.open(database, SILENT, options);
      await using other = await KeyStore.open(database, SILENT, options);
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      const created = await createKey(database, { name: 'app', accountId }, by);
      const { id } = created.record;
      const secrets = [created.key.reveal()];
      /** Returns which of the secrets both services accept, and checks that they are the same key. */
      const accepted = async () => {
        const found = [];
        for (const store of [one, other]) {
          await store.refresh();
          const keys = await Promise.all(
            secrets.map(async (secret) => await store.authenticate(`Bearer ${secret}`)),
          );
          for (const key of keys) assert.equal(key?.id ?? id, id);
          found.push(keys.map((key) => key !== null));
        }
        assert.deepEqual(found[0], found[1]);
        return found[0];
      };
      const rotate = async (previousExpiresAt: number | null) => {
        const rotated = await rotateKey(database, id, previousExpiresAt, by);
        assert.ok(rotated);
        secrets.push(rotated.key.reveal());
        return rotated.record;
      };
      assert.deepEqual(await accepted(), [true]);
      const first = await rotate(clock.unix + 60_000);
      assert.deepEqual(await accepted(), [true, true]);
      assert.equal(first.previous_last_four, secrets[0]?.slice(-4));
      assert.equal(first.last_four, secrets[1]?.slice(-4));
      await one.writeLastUsed();
      assert.equal((await getKey(database, id)).previous_used_at, clock.unix);

      // A second rotation ends the oldest secret, whose last use is not a use of the new previous one.
      assert.deepEqual(await accepted(), [true, true]);
      await rotate(clock.unix + 120_000);
      await one.writeLastUsed();
      assert.equal((await getKey(database, id)).previous_used_at, null);
      assert.deepEqual(await accepted(), [false, true, true]);
      assert.equal((await getKey(database, id)).previous_used_at, null);
      clock.unix += 120_000;
      assert.deepEqual(await accepted(), [false, false, true], 'from the millisecond that it expires');
      const week = 7 * 86_400_000;
      await deleteExpiredSecrets(database, clock.unix + week);
      assert.notEqual((await getKey(database, id)).previous_last_four, null);
      await deleteExpiredSecrets(database, clock.unix + week + 1);
      assert.equal((await getKey(database, id)).previous_last_four, null);

      await rotate(null);
      assert.deepEqual(await accepted(), [false, false, false, true]);
      await rotate(clock.unix + 60_000);
      assert.deepEqual(await accepted(), [false, false, false, true, true]);
      await endPreviousSecret(database, id, by);
      await endPreviousSecret(database, id, by);
      assert.deepEqual(await accepted(), [false, false, false, false, true]);
      await rotate(clock.unix + 60_000);
      // Also a previous secret that was leaked names its key.
      assert.equal((await revokeKey(database, secrets[4] ?? '', by))?.id, id);
      assert.deepEqual(
        await accepted(),
        secrets.map(() => false),
      );
      const { items } = await listAudit(database, { subject: `key:${id}` }, {});
      assert.deepEqual(
        items.map(({ action }) => action).filter((action) => action === 'key.end_previous').length,
        1,
      );
      assert.ok(secrets.every((secret) => !JSON.stringify(items).includes(secret)));
    });

    test('concurrent rotations leave two secrets, and only keys in use can be rotated', async () => {
      await using database = await kind.open();
      await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
      const { record } = await createKey(database, { name: 'app' }, by);
      const until = Date.now() + 60_000;
      const rotated = await Promise.all([1, 2, 3].map(() => rotateKey(database, record.id, until, by)));
      await keys.refresh();
      const accepted = await Promise.all(
        rotated.map(async (result) => await keys.authenticate(`Bearer ${result?.key.reveal()}`)),
      );
      assert.equal(accepted.filter((key) => key !== null).length, 2);
      assert.equal(accepted.filter((key) => key?.isPrevious === true).length, 1);

      assert.equal(await rotateKey(database, 'key_unknown', null, by), null);
      assert.equal(await endPreviousSecret(database, 'key_unknown', by), null);
      const tooLate = Date.now() + MAX_PREVIOUS_MS + 60_000;
      await assert.rejects(
        rotateKey(database, record.id, tooLate, by),
        refused('invalid_value', 'previous_expires_at'),
      );
      await assert.rejects(
        rotateKey(database, record.id, Number.NaN, by),
        refused('invalid_value', 'previous_expires_at'),
      );
      const expiresAt = Date.now() + 60_000;
      const playground = await createKey(database, { name: 'a', purpose: 'playground', expiresAt }, by);
      await assert.rejects(rotateKey(database, playground.record.id, null, by), refused('conflict', 'id'));
      await revokeKey(database, record.id, by);
      await assert.rejects(rotateKey(database, record.id, null, by), refused('conflict', 'id'));
    });

    test('a revoked key cannot be changed, and its revocation is recorded once', async () => {
      await using database = await kind.open();
      const { record } = await createKey(database, { name: 'a' }, by);
      const revoked = await revokeKey(database, record.id, by);
      assert.deepEqual({ ...(await revokeKey(database, record.id, by)) }, { ...revoked });
      await assert.rejects(
        changeKey(database, record.id, () => ({ name: 'b' }), by),
        refused('conflict', 'id'),
      );
      assert.deepEqual(
        { ...(await changeKey(database, record.id, () => ({ name: 'a' }), by)) },
        { ...revoked },
      );
      const { items } = await listAudit(database, { subject: `key:${record.id}` });
      assert.deepEqual(items.map(({ action }) => action).sort(), ['key.create', 'key.revoke']);
      assert.equal(await changeKey(database, 'key_0', () => ({}), by), null);
      assert.equal(await revokeKey(database, 'key_0', by), null);
      await assert.rejects(getKey(database, 'key_0'), refused('not_found', 'id'));
    });

    test('the tags of a key keep their order, without duplicates', async () => {
      await using database = await kind.open();
      const { record } = await createKey(
        database,
        { name: 'a', tags: ['team:search', 'Büro 2', 'team:search'] },
        by,
      );
      assert.deepEqual(readTags((await getKey(database, record.id)).tags), ['team:search', 'Büro 2']);
      await changeKey(database, record.id, () => ({ name: 'b' }), by);
      assert.deepEqual(readTags((await getKey(database, record.id)).tags), ['team:search', 'Büro 2']);
      await changeKey(database, record.id, () => ({ tags: [] }), by);
      assert.equal((await getKey(database, record.id)).tags, null);
      const { items } = await listAudit(database, { subject: `key:${record.id}`, action: 'key.update' });
      // Two entries of the same millisecond have no order.
      const detail = items.map((entry) => entry.detail ?? '').find((text) => text.includes('tags'));
      assert.deepEqual(JSON.parse(detail ?? ''), { tags: { from: ['team:search', 'Büro 2'], to: [] } });
      const many = Array.from({ length: 21 }, (_, index) => `${index}`);
      for (const tags of [
        ['a,b'],
        [''],
        [' a'],
        ['a '],
        ['a\nb'],
        ['\u202ea'],
        ['\ud800'],
        ['a'.repeat(41)],
        many,
      ])
        await assert.rejects(createKey(database, { name: 'a', tags }, by), refused('invalid_value', 'tags'));
      await createKey(database, { name: 'a', tags: many.slice(1) }, by);
    });

    test('several keys are revoked together, or none of them', async () => {
      await using database = await kind.open();
      const create = async (name: string) => (await createKey(database, { name }, by)).record.id;
      const [a, b, c] = [await create('a'), await create('b'), await create('c')];
      const isRevoked = async (...ids: string[]) =>
        Promise.all(ids.map(async (id) => (await getKey(database, id)).revoked_at !== null));
      const any = () => {};
      await assert.rejects(revokeKeys(database, [a, 'key_0', b], any, by), refused('not_found', 'ids[1]'));
      const check = ({ name }: { name: string }, param: string) => {
        if (name === 'b') throw new ServiceError('conflict', 'Not this one.', { param });
      };
      await assert.rejects(revokeKeys(database, [a, b], check, by), refused('conflict', 'ids[1]'));
      assert.deepEqual(await isRevoked(a, b, c), [false, false, false]);
      await revokeKey(database, b, by);
      const revoked = await revokeKeys(database, [c, b, c], any, by);
      assert.deepEqual(
        revoked.map(({ id, revoked_at: at }) => [id, at === null]),
        [
          [c, false],
          [b, false],
          [c, false],
        ],
      );
      assert.deepEqual(await isRevoked(a, b, c), [false, true, true]);
      const { items } = await listAudit(database, { action: 'key.revoke' });
      // Entries of the same millisecond are in any order.
      assert.deepEqual(items.map(({ subject }) => subject).toSorted(), [`key:${b}`, `key:${c}`].toSorted());
    });

    test('a key cannot be created for a suspended, closed or unknown account', async () => {
      await using database = await kind.open();
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      const create = (id: string) => createKey(database, { name: 'a', accountId: id }, by);
      for (const status of ['suspended', 'closed'] as const) {
        await changeAccount(database, accountId, { status }, by);
        await assert.rejects(create(accountId), refused('conflict', 'account_id'));
      }
      await assert.rejects(create('acct_0'), refused('not_found', 'account_id'));
      assert.equal((await listKeyPage(database, { accountId })).items.length, 0);
    });

    test('a key whose columns are damaged can only be revoked, and the others are listed and work', async () => {
      await using database = await kind.open();
      const damages = [
        { limits: '{"tokensPerDay":1' },
        { limits: '[]' },
        { allowed_models: '{}' },
        { allowed_models: '[1]' },
      ];
      for (const damage of damages) {
        const { record } = await createKey(database, { name: 'a' }, by);
        await database.kysely.updateTable('keys').set(damage).where('id', '=', record.id).execute();
        const id = record.id;
        assert.equal(keyStatus(await getKey(database, id), Date.now()), 'damaged');
        assert.equal(keyJson(await getKey(database, id)).status, 'damaged');
        await assert.rejects(
          changeKey(database, id, () => ({ name: 'b' }), by),
          refused('conflict', 'id'),
        );
        await assert.rejects(rotateKey(database, id, null, by), refused('conflict', 'id'));
      }
      const { key, record } = await createKey(database, { name: 'whole', tags: ['x'] }, by);
      await database.kysely.updateTable('keys').set({ tags: 'x' }).where('id', '=', record.id).execute();
      const { items } = await listKeyPage(database, {});
      // Not in the order of creation: keys of one millisecond are listed by their IDs.
      assert.deepEqual(
        items.map((row) => `${row.name} ${keyJson(row).status} ${keyJson(row).tags.length}`).toSorted(),
        [...damages.map(() => 'a damaged 0'), 'whole live 0'],
      );
      await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
      assert.equal((await keys.authenticate(`Bearer ${key.reveal()}`))?.id, record.id);
      for (const { id } of items) assert.equal((await revokeKey(database, id, by))?.name !== undefined, true);
      assert.equal(keyStatus(await getKey(database, items[0]?.id ?? ''), Date.now()), 'revoked');
    });

    test('an empty list of models and too many models are a 400', async () => {
      await using database = await kind.open();
      const many = Array.from({ length: 101 }, (_, index) => `a/${index}`);
      for (const allowedModels of [[], many]) {
        await assert.rejects(
          createKey(database, { name: 'a', allowedModels }, by),
          refused('invalid_value', 'allowed_models'),
        );
      }
    });

    test('an expiry in the past is kept, and an expiry outside the years 1970 to 9999 is clamped', async () => {
      await using database = await kind.open();
      const expiries = [
        [1_000_000_000_000, '2001-09-09T01:46:40.000Z'],
        [-62_167_219_200_001, '1970-01-01T00:00:00.000Z'],
        [253_402_300_800_000, '9999-12-31T23:59:59.999Z'],
      ] as const;
      for (const [expiresAt, kept] of expiries) {
        const { record } = await createKey(database, { name: 'a', expiresAt }, by);
        assert.equal(new Date(record.expires_at ?? Number.NaN).toISOString(), kept);
      }
    });

    test('keys are listed in pages, for all accounts or for one', async () => {
      await using database = await kind.open();
      const { id: accountId } = await createAccount(database, { name: 'acme' }, by);
      for (let index = 0; index < 6; index += 1) {
        await createKey(database, { name: 'a', accountId: index % 2 === 0 ? accountId : undefined }, by);
      }
      for (const [filter, count] of [
        [{}, 6],
        [{ accountId }, 3],
        [{ accountId: 'acct_0' }, 0],
      ] as const) {
        const whole = await Array.fromAsync(everyItem((page) => listKeyPage(database, filter, page)));
        assert.equal(whole.length, count);
        const paged = [];
        let cursor: string | null = null;
        do {
          const { items, nextCursor }: Awaited<ReturnType<typeof listKeyPage>> = await listKeyPage(
            database,
            filter,
            { limit: 2, cursor },
          );
          paged.push(...items);
          cursor = nextCursor;
        } while (cursor !== null);
        assert.deepEqual(paged, whole);
      }
    });
  });
}

/** Inserts a session of a user. Resolves to its ID. */
async function signIn({ kysely }: Database, userId: string): Promise<string> {
  const [id, now] = [randomUUID(), Date.now()];
  const times = { created_at: now, last_active_at: now, expires_at: now + 60_000 };
  await kysely
    .insertInto('sessions')
    .values({
      id,
      user_id: userId,
      token_hash: randomBytes(32).toString('hex'),
      pending: 0,
      ip: null,
      user_agent: null,
      ...times,
    })
    .execute();
  return id;
}
