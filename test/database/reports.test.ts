import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { Kysely, sql } from 'kysely';
import { openDatabase } from '../../src/database/database.ts';
import type { Schema } from '../../src/database/schema.ts';
import { SQLITE, testDatabases, type TestDatabases } from '../support/servers.ts';
import { fault, plain } from './faults.ts';

/** Opens a new database as the service does. */
async function open(databases: TestDatabases) {
  await using owned = new AsyncDisposableStack();
  const location = owned.use(await databases.location());
  const database = owned.use(await openDatabase({ ...location, threads: true }));
  const kept = owned.move();
  return { ...database, home: location.home, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** A slow query on either database; returns its last number. */
const long = (rows: number) => sql<{ last: number }>`
  with recursive count(n) as (select 1 union all select n + 1 from count where n < ${sql.lit(rows)})
  select max(n) as last from count`;

for (const databases of testDatabases()) {
  describe(`reports on ${databases.name}`, () => {
    test('read what the main connection has written', async () => {
      await using database = await open(databases);
      const values = { account_id: 'ä', day: 1, model: 'm', key_id: "'", requests: 9007199254740991 };
      const zeros = {
        errors: 0,
        aborted: 0,
        interrupted: 0,
        prompt_tokens: 0,
        cached_tokens: 0,
        cache_miss_tokens: 0,
      };
      await database.kysely
        .insertInto('usage_days')
        .values({
          ...values,
          ...zeros,
          completion_tokens: 0,
          reasoning_tokens: 0,
          billed_tokens: 0,
          cost_pico: 2n ** 63n - 1n,
        })
        .execute();
      const [there, here] = await Promise.all(
        [database.reports, database.kysely].map(async (kysely) => {
          const { rows } = await sql`
            select account_id, key_id, requests, cast(cost_pico as text) as cost, null as missing, 0.5 as half
            from usage_days where account_id = ${'ä'} and day < ${2}`.execute(kysely);
          return plain(rows);
        }),
      );
      assert.equal(here?.length, 1);
      assert.deepEqual(there, here);
    });

    test('do not block the event loop during a long query', async () => {
      await using database = await open(databases);
      // Starts the thread before turns are counted.
      await sql`select 1`.execute(database.reports);
      let turns = 0;
      // On a busy machine, this process may stand still during the first queries.
      for (let numbers = 300_000; turns <= 10; numbers *= 2) {
        assert.ok(numbers < 10_000_000, `${turns} turns`);
        turns = 0;
        let running = true;
        const turn = () => {
          turns++;
          if (running) setImmediate(turn);
        };
        setImmediate(turn);
        const { rows } = await long(numbers).execute(database.reports);
        running = false;
        assert.equal(rows[0]?.last, numbers);
      }
    });

    test('return the result of each concurrent query, and one failure does not affect the others', async () => {
      await using database = await open(databases);
      const numbers = Array.from({ length: 20 }, (_, index) => index);
      const results = await Promise.allSettled(
        numbers.map((number) =>
          number === 7
            ? sql<{ number: number }>`select 1 as number from nowhere`.execute(database.reports)
            : sql<{ number: number }>`select cast(${number} as integer) as number`.execute(database.reports),
        ),
      );
      assert.deepEqual(
        results.map((result) => (result.status === 'fulfilled' ? result.value.rows[0]?.number : 'failed')),
        numbers.map((number) => (number === 7 ? 'failed' : number)),
      );
    });

    test('refuse writes', async () => {
      await using database = await open(databases);
      const rename = database.reports.updateTable('accounts').set({ name: 'B' });
      await assert.rejects(rename.execute(), fault('unwritable'));
      const account = await database.kysely.selectFrom('accounts').select('name').executeTakeFirstOrThrow();
      assert.equal(account.name, 'Default');
    });

    test('reject with database errors, and with a RangeError for unsafe integers', async () => {
      await using database = await open(databases);
      await assert.rejects(sql`select 1 from nowhere`.execute(database.reports), fault('failed', /nowhere/));
      await assert.rejects(
        sql`select cast('9007199254740993' as bigint) as big`.execute(database.reports),
        RangeError,
      );
      await sql`select 1`.execute(database.reports);
    });
  });
}

test('without threads SQLite reads reports on its main connection', async () => {
  await using database = await SQLITE.open();
  assert.equal(database.reports, database.kysely);
});

test('a transaction of reports on SQLite reads one snapshot, and no other query runs in between', async () => {
  await using database = await open(SQLITE);
  const names = (kysely: Kysely<Schema>) => kysely.selectFrom('accounts').select('name').execute();
  await database.reports.transaction().execute(async (transaction) => {
    const before = await names(transaction);
    await database.kysely.updateTable('accounts').set({ name: 'B' }).execute();
    assert.deepEqual(await names(transaction), before);
  });
  assert.deepEqual(plain(await names(database.reports)), [{ name: 'B' }]);
});

test('a value without a SQLite type is refused by the thread too', async () => {
  await using database = await open(SQLITE);
  await assert.rejects(sql`select ${new Date()}`.execute(database.reports), /SQLite has no type for a Date/);
  await assert.rejects(sql`select ${Symbol('a')}`.execute(database.reports), /could not be cloned/);
  await sql`select 1`.execute(database.reports);
});

test('closing waits for the running query', async () => {
  const database = await open(SQLITE);
  const running = long(100_000).execute(database.reports);
  await sql`select 1`.execute(database.kysely);
  await database[Symbol.asyncDispose]();
  assert.equal((await running).rows[0]?.last, 100_000);
});

test('an idle thread does not keep the process alive', async () => {
  await using location = await SQLITE.location();
  const module = (path: string) => JSON.stringify(pathToFileURL(join(import.meta.dirname, path)).href);
  const program = `import(${module('../../src/database/database.ts')}).then(async ({ openDatabase }) => {
    const database = await openDatabase({ home: ${JSON.stringify(location.home)}, url: null, threads: true });
    await database.reports.selectFrom('accounts').selectAll().execute();
    console.log('asked');
  });`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--eval', program], { timeout: 60_000 });
  assert.equal(stdout, 'asked\n');
});
