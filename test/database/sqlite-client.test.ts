import assert from 'node:assert/strict';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Kysely, sql } from 'kysely';
import { openDatabase, sqlitePath, type Database } from '../../src/database/database.ts';
import type { Schema } from '../../src/database/schema.ts';
import { SqliteClient } from '../../src/database/sqlite-client.ts';
import { NodeSqliteDialect } from '../../src/database/sqlite-dialect.ts';
import { openFiles } from '../../src/database/sqlite-files.ts';
import { SQLITE } from '../support/servers.ts';
import { fault, plain } from './faults.ts';

const DYING = pathToFileURL(join(import.meta.dirname, 'dying-thread.ts'));

const setName = (kysely: Kysely<Schema>, name: string) => kysely.updateTable('accounts').set({ name });
const nameOf = async (kysely: Kysely<Schema>) =>
  (await kysely.selectFrom('accounts').select('name').executeTakeFirstOrThrow()).name;

/** Opens clients of the same database in threads that the query `die` kills. */
function dying({ home }: { home: string }) {
  const path = sqlitePath(home);
  const options = { path, files: openFiles(path) };
  const writer = SqliteClient.inThread({ ...options, readOnly: false }, DYING);
  const reader = SqliteClient.inThread({ ...options, readOnly: true }, DYING);
  const kyselyOf = (client: SqliteClient) => new Kysely<Schema>({ dialect: new NodeSqliteDialect(client) });
  return {
    writer: kyselyOf(writer),
    reader: kyselyOf(reader),
    async [Symbol.asyncDispose]() {
      await reader[Symbol.asyncDispose]();
      await writer[Symbol.asyncDispose]();
    },
  };
}

/** Locks a database as another process does. */
function lock({ home }: { home: string }) {
  const other = new DatabaseSync(sqlitePath(home));
  other.exec('begin immediate');
  return { [Symbol.dispose]: () => other.close() };
}

for (const threads of [false, true]) {
  const where = threads ? 'in threads' : 'in the process';

  test(`a transaction ${where} excludes all other statements, and is read by those that follow`, async () => {
    await using database = await SQLITE.open({ threads });
    const others: Promise<unknown>[] = [];
    await database.kysely.transaction().execute(async (transaction) => {
      await setName(transaction, 'B').execute();
      others.push(nameOf(database.kysely), nameOf(database.background), database.accessRevision());
      others.push(setName(database.background, 'C').execute());
      assert.equal(await nameOf(transaction), 'B');
      await setName(transaction, 'D').execute();
    });
    const [first, second] = await Promise.all(others);
    assert.deepEqual([first, second], ['D', 'D']);
    assert.equal(await nameOf(database.reports), 'C');
  });

  test(`transactions ${where} that run at the same time do not overlap`, async () => {
    await using database = await SQLITE.open({ threads });
    const add = async () => {
      await database.kysely.transaction().execute(async (transaction) => {
        const name = await nameOf(transaction);
        if (name.length % 5 === 4) await assert.rejects(sql`select * from nowhere`.execute(transaction));
        await setName(transaction, `${name}.`).execute();
      });
    };
    const before = await nameOf(database.kysely);
    const failing = database.kysely.transaction().execute(async (transaction) => {
      await setName(transaction, 'lost').execute();
      throw new TypeError('stop');
    });
    const added = Promise.all(Array.from({ length: 8 }, add));
    await assert.rejects(failing, /stop/);
    await added;
    assert.equal(await nameOf(database.reports), `${before}${'.'.repeat(8)}`);
  });

  test(`while another process has the lock, reads ${where} continue, and writes follow once it is free`, async () => {
    await using database = await SQLITE.open({ threads });
    const locked = lock(database);
    const writing = setName(database.kysely, 'B').execute();
    const changing = database.kysely
      .transaction()
      .execute((transaction) => setName(transaction, 'C').execute());
    const before = await Promise.all([nameOf(database.kysely), nameOf(database.reports)]);
    await assert.rejects(
      setName(database.background, 'D').execute(),
      fault('busy', /is locked by another connection/),
    );
    assert.deepEqual(before, ['Default', 'Default']);
    locked[Symbol.dispose]();
    await Promise.all([writing, changing]);
    assert.match(await nameOf(database.kysely), /^[BC]$/);
  });

  test(`a batch ${where} is written as a whole or not at all`, async () => {
    await using database = await SQLITE.open({ threads });
    assert.equal(database.location.kind, 'sqlite');
    const { client } = database.location;
    const insert = {
      sql: 'insert into settings (name, value) values (?, ?)',
      rows: [
        ['a', '1'],
        ['b', '2'],
      ],
    };
    const required = (...names: string[]) => ({
      sql: 'select 1 from settings where name = ?',
      rows: names.map((name) => [name]),
      required: true,
    });
    const missed = await client.run({ statements: [insert, required('a', 'c', 'b', 'd')] });
    assert.deepEqual(missed, { sql: 'select 1 from settings where name = ?', rows: [1, 3] });
    await assert.rejects(client.run({ statements: [insert, insert] }), fault('conflict'));
    const written = () =>
      database.reports
        .selectFrom('settings')
        .select(['name', 'value'])
        .where('name', 'in', ['a', 'b'])
        .execute();
    assert.deepEqual(await written(), []);
    assert.equal(await client.run({ statements: [insert, required('a', 'b')] }), null);
    assert.deepEqual(plain(await written()), [
      { name: 'a', value: '1' },
      { name: 'b', value: '2' },
    ]);
  });
}

test('a call that another process keeps waiting names that process, even if a transaction waits too', async () => {
  await using database = await SQLITE.open({ threads: true });
  assert.equal(database.location.kind, 'sqlite');
  const { client } = database.location;
  const query = (text: string) => ({ sql: text, parameters: [], inTransaction: false, checksFiles: true });
  const rename = query("update accounts set name = 'B'");
  const slow = query(
    'with recursive n (i) as (select 1 union all select i + 1 from n where i < 2000000) select count(*) from n',
  );
  using _locked = lock(database);
  const renaming = client.run(rename, 200);
  // The thread answers the first attempt, and is then busy, so that the transaction still begins at the deadline.
  const others = Promise.allSettled([client.run(slow), client.begin(0)]);
  await assert.rejects(renaming, fault('busy', /is locked by another connection/));
  await others;
});

test('a thread that dies fails its query, and the next query starts a new thread', async () => {
  await using database = await SQLITE.open();
  await using threads = dying(database);
  for (const [kysely, verb] of [
    [threads.reader, 'reads'],
    [threads.writer, 'writes'],
  ] as const) {
    const ask = (name: string) => sql<{ name: string }>`select 1 as ${sql.id(name)}`.execute(kysely);
    await ask('one');
    await assert.rejects(ask('die'), fault('failed', new RegExp(`thread that ${verb} .* has stopped`)));
    const results = await Promise.allSettled([ask('two'), ask('die'), ask('three')]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'rejected'],
    );
    await ask('four');
  }
});

test('a transaction whose thread dies is rolled back, and its later statements fail', async () => {
  await using database = await SQLITE.open();
  await using threads = dying(database);
  const changed = threads.writer.transaction().execute(async (transaction) => {
    await setName(transaction, 'B').execute();
    await assert.rejects(sql`select 1 as die`.execute(transaction), fault('failed', /has stopped/));
    await assert.rejects(setName(transaction, 'C').execute(), fault('failed', /was rolled back/));
  });
  await assert.rejects(changed, fault('failed', /was rolled back/));
  assert.equal(await nameOf(threads.writer), 'Default');
  await setName(threads.writer, 'D').execute();
  assert.equal(await nameOf(threads.reader), 'D');
});

test('writes are refused while the files are moved away, and reads continue', async () => {
  await using database = await SQLITE.open({ threads: true });
  const path = sqlitePath(database.home);
  await Promise.all([nameOf(database.kysely), nameOf(database.reports)]);
  await rename(`${path}-wal`, `${path}-moved`);
  const moved = fault('replaced', /was deleted or moved/);
  await assert.rejects(setName(database.kysely, 'B').execute(), moved);
  await assert.rejects(database.accessRevision(), moved);
  await assert.rejects(nameOf(database.reports), moved);
  assert.equal(await nameOf(database.kysely), 'Default');
  await rename(`${path}-moved`, `${path}-wal`);
  await setName(database.kysely, 'B').execute();
  assert.equal(await nameOf(database.reports), 'B');
});

test('disposing completes the statements that were started, and refuses later ones', async () => {
  await using location = await SQLITE.location();
  const close = async (database: Database) => await database[Symbol.asyncDispose]();
  const database = await openDatabase({ ...location, threads: true });
  assert.equal(database.location.kind, 'sqlite');
  const { client } = database.location;
  await nameOf(database.kysely);
  const statements = [{ sql: 'update accounts set name = ?', rows: [['B']] }];
  const writing = client.run({ statements });
  await close(database);
  assert.equal(await writing, null);
  await assert.rejects(client.run({ statements }), fault('failed', /is closed/));
  await using again = await openDatabase(location);
  assert.equal(await nameOf(again.kysely), 'B');
});
