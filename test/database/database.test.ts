import { fork } from 'node:child_process';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Database } from '../../src/database/database.ts';
import { openDatabase } from '../../src/database/database.ts';
import { testDatabases } from '../support/servers.ts';
import { fault, plain } from './faults.ts';

const secretOf = async ({ kysely }: Database) =>
  (
    await kysely
      .selectFrom('settings')
      .select('value')
      .where('name', '=', 'cache_scope_secret')
      .executeTakeFirstOrThrow()
  ).value;

for (const databases of testDatabases()) {
  describe(databases.name, () => {
    test('a new database has the tables, the default account and a secret', async () => {
      await using database = await databases.open();
      const accounts = await database.kysely
        .selectFrom('accounts')
        .select(['id', 'status', 'plan'])
        .execute();
      assert.deepEqual(plain(accounts), [{ id: 'default', status: 'active', plan: null }]);
      assert.match(await secretOf(database), /^[0-9a-f]{64}$/);
    });

    test('opening again keeps the secret', async () => {
      await using database = await databases.open();
      await using again = await database.again();
      assert.equal(await secretOf(again), await secretOf(database));
    });

    test('processes that open a new database at the same time all find it complete', async () => {
      await using location = await databases.emptyLocation();
      const children = Array.from({ length: 3 }, () =>
        fork(join(import.meta.dirname, 'open-child.ts'), {
          stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
          env: { ...process.env, ...location.env },
        }),
      );
      const ends = children.map((child) => once(child, 'exit'));
      await Promise.all(children.map((child) => once(child, 'message')));
      for (const child of children) child.send('go');
      for (const [code] of await Promise.all(ends)) assert.equal(code, 0);
      await using database = await openDatabase(location);
      const rows = await sql<{ name: string }>`select name from migrations`.execute(database.kysely);
      assert.equal(new Set(rows.rows.map(({ name }) => name)).size, rows.rows.length);
      const accounts = await database.kysely.selectFrom('accounts').select('id').execute();
      assert.equal(accounts.length, 1);
    });

    test('the access revision increases only with changes of access rights', async () => {
      await using one = await databases.open();
      await using two = await one.again();
      const { kysely } = two;
      let last = await one.accessRevision();
      const rises = async (what: string, work: () => Promise<unknown>, expected = true) => {
        await work();
        const now = await one.accessRevision();
        assert.equal(now > last, expected, what);
        last = now;
      };
      const key = {
        account_id: 'a',
        kind: 'caller',
        prefix: 'sk',
        last_four: 'abcd',
        created_at: 1,
      } as const;
      const account = { name: 'A', status: 'active', created_at: 1 } as const;
      await rises('an account is created', () =>
        kysely
          .insertInto('accounts')
          .values({ id: 'a', ...account })
          .execute(),
      );
      await rises('a key is created', () =>
        kysely
          .insertInto('keys')
          .values({ id: 'k', name: 'K', hash: '0'.repeat(64), ...key })
          .execute(),
      );
      for (const change of [
        { revoked_at: 1 },
        { expires_at: 2 },
        { name: 'L' },
        { limits: '{}' },
        { allowed_models: '[]' },
        { strict: 1 },
      ]) {
        await rises(JSON.stringify(change), () => kysely.updateTable('keys').set(change).execute());
      }
      for (const change of [{ status: 'suspended' }, { plan: 'free' }, { name: 'B' }] as const) {
        await rises(JSON.stringify(change), () => kysely.updateTable('accounts').set(change).execute());
      }
      const used = () => one.background.updateTable('keys').set({ last_used_at: 3 }).execute();
      await rises('a key is used', used, false);
      const setting = () => kysely.insertInto('settings').values({ name: 'a', value: '1' }).execute();
      await rises('a setting is created', setting, false);
      await rises('a revoked key is deleted', () => kysely.deleteFrom('keys').execute(), false);
      await rises('a key is created', () =>
        kysely
          .insertInto('keys')
          .values({ id: 'k', name: 'K', hash: '0'.repeat(64), ...key })
          .execute(),
      );
      await rises('a key is deleted', () => kysely.deleteFrom('keys').execute());
      await rises('an account is deleted', () =>
        kysely.deleteFrom('accounts').where('id', '=', 'a').execute(),
      );
    });

    test('a change that is rolled back does not change the revision', async () => {
      await using database = await databases.open();
      const before = await database.accessRevision();
      const change = database.kysely.transaction().execute(async (transaction) => {
        await transaction.updateTable('accounts').set({ plan: 'free' }).execute();
        throw new Error('no');
      });
      await assert.rejects(change, /no/);
      assert.equal(await database.accessRevision(), before);
    });

    test('the background connections give up soon if the database is locked', async () => {
      await using database = await databases.open();
      const rename = (name: string) => database.background.updateTable('accounts').set({ name }).execute();
      await database.kysely.transaction().execute(async (transaction) => {
        await transaction.updateTable('accounts').set({ name: 'A' }).execute();
        await assert.rejects(rename('B'), fault('busy'));
      });
      await rename('C');
    });

    test('transactions of one process are isolated, and a failed one is rolled back', async () => {
      await using database = await databases.open();
      const add = (name: string, fail: boolean) =>
        database.kysely.transaction().execute(async (transaction) => {
          await transaction.insertInto('settings').values({ name, value: '1' }).execute();
          await new Promise(setImmediate);
          if (fail) throw new Error('no');
        });
      const results = await Promise.allSettled([add('a', false), add('b', true), add('c', false)]);
      assert.deepEqual(
        results.map((result) => result.status),
        ['fulfilled', 'rejected', 'fulfilled'],
      );
      const rows = await database.kysely.selectFrom('settings').select('name').orderBy('name').execute();
      assert.deepEqual(
        rows.map((row) => row.name),
        [
          'a',
          'access_reload',
          'access_revision',
          'auth_secret',
          'c',
          'cache_scope_secret',
          'models_revision',
        ],
      );
    });

    test('text is ordered by its bytes', async () => {
      await using database = await databases.open();
      const names = ['a', 'B', 'á', 'a_', 'aB', 'z', 'Z', '_'];
      await database.kysely
        .insertInto('users')
        .values(names.map((name) => ({ id: name, name, email: name, created_at: 1 })))
        .execute();
      const rows = await database.kysely.selectFrom('users').select('id').orderBy('id').execute();
      assert.deepEqual(
        rows.map(({ id }) => id),
        names.toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))),
      );
    });

    test('integers are read as numbers, and unsafe ones are refused unless cast', async () => {
      await using database = await databases.open();
      const { kysely } = database;
      const big = { account_id: 'a', day: 1, model: 'm', key_id: 'k', requests: 9007199254740991 };
      const zeros = {
        errors: 0,
        aborted: 0,
        interrupted: 0,
        prompt_tokens: 0,
        cached_tokens: 0,
        cache_miss_tokens: 0,
      };
      const cost = 9_223_372_036_854_775_807n;
      await kysely
        .insertInto('usage_days')
        .values({
          ...big,
          ...zeros,
          completion_tokens: 0,
          reasoning_tokens: 0,
          billed_tokens: 0,
          cost_pico: cost,
        })
        .execute();
      const read = await sql<{ requests: number; cost: string; days: number }>`
        select requests, cast(cost_pico as text) as cost, (select count(*) from usage_days) as days
        from usage_days`.execute(kysely);
      assert.deepEqual(plain(read.rows), [{ requests: 9007199254740991, cost: String(cost), days: 1 }]);
      await assert.rejects(sql`select cost_pico from usage_days`.execute(kysely), RangeError);
    });

    test('the audit log accepts new rows and refuses changes and deletions', async () => {
      await using database = await databases.open();
      const { kysely } = database;
      const row = {
        at: 1,
        actor: 'cli:me',
        ip: null,
        action: 'key.revoke',
        subject: 'key:k',
        account_id: 'a',
      };
      await kysely
        .insertInto('audit')
        .values(['1', '2'].map((id) => ({ id, ...row, detail: '{}' })))
        .execute();
      for (const change of ["update audit set actor = 'key:k'", 'delete from audit']) {
        await assert.rejects(sql.raw(change).execute(kysely), fault('failed', /append-only/));
      }
      assert.equal((await kysely.selectFrom('audit').select('id').execute()).length, 2);
    });

    test('an account with keys cannot be deleted; deleting a user deletes the memberships', async () => {
      await using database = await databases.open();
      const { kysely } = database;
      await kysely.insertInto('users').values({ id: 'p', name: 'P', email: 'p@a', created_at: 1 }).execute();
      const membership = { account_id: 'default', user_id: 'p', role: 'owner', created_at: 1 } as const;
      await kysely.insertInto('memberships').values(membership).execute();
      await assert.rejects(kysely.deleteFrom('accounts').execute(), fault('conflict'));
      await kysely.deleteFrom('users').execute();
      assert.deepEqual(await kysely.selectFrom('memberships').selectAll().execute(), []);
    });

    test('the epoch of an instance is never reused', async () => {
      await using database = await databases.open();
      const { kysely } = database;
      const enter = () =>
        kysely
          .insertInto('instances')
          .values({ live: 1, lease_until: 1, started_at: 1, pid: 1 })
          .returning('epoch')
          .executeTakeFirstOrThrow();
      const { epoch } = await enter();
      await kysely.deleteFrom('instances').execute();
      assert.ok((await enter()).epoch > epoch);
    });
  });
}
