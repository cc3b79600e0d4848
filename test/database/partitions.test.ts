import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { sql } from 'kysely';
import type { Database } from '../../src/database/database.ts';
import { dropPartitions, ensurePartitions, firstIdAt } from '../../src/database/partitions.ts';
import { testDatabases } from '../support/servers.ts';
import { fault } from './faults.ts';

const at = (time: string) => Date.parse(time);

/** Opens the row of a request that arrived at this time. */
async function write({ kysely }: Database, time: string): Promise<void> {
  await kysely
    .insertInto('ledger')
    .values({
      id: firstIdAt(at(time)),
      account_id: 'a',
      key_id: 'k',
      endpoint: 'chat',
      model: 'm',
      streamed: 0,
      epoch: 1,
      state: 'settled',
      started_at: at(time),
      plan: 'p',
      limits: '[]',
      reserved_tokens: 0,
      reserved_pico: 0n,
      price_prompt: 0,
      price_completion: 0,
      attempts: 1,
      prompt_tokens: 0,
      cached_tokens: 0,
      cache_miss_tokens: 0,
      completion_tokens: 0,
      reasoning_tokens: 0,
      billed: 1,
      cost_pico: 0n,
    })
    .execute();
}

async function rows({ kysely }: Database): Promise<string[]> {
  const found = await kysely.selectFrom('ledger').select('started_at').orderBy('id').execute();
  return found.map(({ started_at }) => new Date(started_at).toISOString());
}

test('the first ID of a time is a UUIDv7 that sorts after all earlier IDs', () => {
  fc.assert(
    fc.property(fc.nat({ max: 2 ** 47 }), fc.nat({ max: 2 ** 47 }), (a, b) => {
      assert.equal(firstIdAt(a) < firstIdAt(b), a < b);
      assert.match(firstIdAt(a), /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
      assert.equal(Number.parseInt(firstIdAt(a).replace('-', '').slice(0, 12), 16), a);
    }),
  );
});

for (const databases of testDatabases()) {
  describe(databases.name, () => {
    test('rows can be written from the first to the last millisecond of this month and the next two', async () => {
      await using database = await databases.open();
      await ensurePartitions(database, at('2026-11-22T10:00:00Z'));
      const times = ['2026-11-01T00:00:00.000Z', '2026-12-31T23:59:59.999Z', '2027-01-31T23:59:59.999Z'];
      for (const time of times) await write(database, time);
      assert.deepEqual(await rows(database), times);
    });

    test('creating partitions again, by several instances at the same time, changes nothing', async () => {
      await using database = await databases.open();
      await using other = await database.again();
      const now = at('2027-01-31T23:59:59.999Z');
      await Promise.all([database, other, database].map((each) => ensurePartitions(each, now)));
      await write(database, '2027-02-01T00:00:00.000Z');
      await ensurePartitions(other, now + 1);
      assert.deepEqual(await rows(database), ['2027-02-01T00:00:00.000Z']);
    });
  });
}

for (const databases of testDatabases().filter(({ name }) => name === 'PostgreSQL')) {
  describe('partitions of PostgreSQL', () => {
    test('a row of a month without a partition is refused until the partition exists', async () => {
      await using database = await databases.open();
      await assert.rejects(write(database, '2026-11-22T10:00:00Z'), fault('failed', /no partition/));
      await ensurePartitions(database, at('2026-11-22T10:00:00Z'));
      await write(database, '2026-11-22T10:00:00Z');
    });

    test('only partitions whose rows are all old enough are dropped', async () => {
      await using database = await databases.open();
      await ensurePartitions(database, at('2026-08-15T00:00:00Z'));
      const times = ['2026-08-31T23:59:59.999Z', '2026-09-01T00:00:00.000Z', '2026-10-01T00:00:00.000Z'];
      for (const time of times) await write(database, time);
      assert.equal(await dropPartitions(database, at('2026-09-30T23:59:59.999Z')), 1);
      assert.deepEqual(await rows(database), times.slice(1));
      assert.equal(await dropPartitions(database, at('2026-10-01T00:00:00Z')), 1);
      assert.deepEqual(await rows(database), times.slice(2));
    });

    test('partitions are created while the ledger is read and written', async () => {
      await using database = await databases.open();
      await ensurePartitions(database, at('2026-08-15T00:00:00Z'));
      await using other = await database.again();
      await database.kysely.transaction().execute(async (transaction) => {
        await transaction.selectFrom('ledger').select('id').execute();
        await transaction.updateTable('ledger').set({ attempts: 2 }).execute();
        await ensurePartitions(other, at('2026-11-15T00:00:00Z'));
      });
      await write(database, '2027-01-01T00:00:00.000Z');
    });

    test('a partition that is being read is skipped, and writers continue', async () => {
      await using database = await databases.open();
      await ensurePartitions(database, at('2026-08-15T00:00:00Z'));
      await using other = await database.again();
      await database.kysely.transaction().execute(async (transaction) => {
        await transaction.selectFrom('ledger').select('id').execute();
        assert.equal(await dropPartitions(other, at('2026-09-01T00:00:00Z')), 0);
        await write(other, '2026-09-01T00:00:00.000Z');
      });
      assert.equal(await dropPartitions(other, at('2026-09-01T00:00:00Z')), 1);
    });

    test('a partition that an operator created is left alone', async () => {
      await using database = await databases.open();
      await sql`create table ledger_rest partition of ledger default`.execute(database.kysely);
      await ensurePartitions(database, at('2026-08-15T00:00:00Z'));
      assert.equal(await dropPartitions(database, at('2026-11-01T00:00:00Z')), 3);
      await write(database, '2026-09-01T00:00:00.000Z');
    });

    test('a partition has the indexes and checks of the ledger', async () => {
      await using database = await databases.open();
      await ensurePartitions(database, at('2026-08-15T00:00:00Z'));
      const found = await sql<{ attached: number; checks: number }>`
        select
          (select count(*) from pg_inherits join pg_class on oid = inhparent and relkind = 'I') as attached,
          (select count(*) from pg_constraint
            where contype = 'c' and conrelid = 'ledger_2026_08'::regclass and coninhcount = 1) as checks`.execute(
        database.kysely,
      );
      const parent = await sql<{ indexes: number; checks: number }>`
        select
          (select count(*) from pg_index where indrelid = 'ledger'::regclass) as indexes,
          (select count(*) from pg_constraint where contype = 'c' and conrelid = 'ledger'::regclass) as checks`.execute(
        database.kysely,
      );
      const [of] = parent.rows;
      assert.ok(of && of.indexes > 1 && of.checks > 1);
      assert.deepEqual(found.rows, [{ attached: 3 * of.indexes, checks: of.checks }]);
    });
  });
}
