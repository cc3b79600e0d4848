import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { createKey } from '../../src/accounts/key-table.ts';
import { openDatabase, sqlitePath, type Database } from '../../src/database/database.ts';
import { ensurePartitions, firstIdAt } from '../../src/database/partitions.ts';
import { ServiceLock } from '../../src/database/service-lock.ts';
import { restoreDatabase } from '../../src/database/restore.ts';
import { start } from '../commands/program.ts';
import { runCli, temporaryFolder, until } from '../harness.ts';
import {
  SQLITE,
  POSTGRES,
  POSTGRES_LOCKS,
  testDatabases,
  withoutPostgres,
  type TestLocation,
} from '../support/servers.ts';
import { fault, plain } from './faults.ts';

const TABLES = [
  'accounts',
  'users',
  'keys',
  'settings',
  'ledger',
  'audit',
  'memberships',
  'instances',
] as const;
const kinds = testDatabases();

for (const from of kinds) {
  for (const to of kinds) {
    test(`a backup of ${from.name} is restored to ${to.name} completely`, async () => {
      await using backups = await temporaryFolder();
      const file = join(backups.path, 'sluice.db');
      await using source = await from.open();
      await addRows(source);
      const made = await sluice(source, 'database', 'backup', file);
      assert.deepEqual([made.code, made.stderr], [0, `Backup written to ${file}\n`]);
      assert.deepEqual([readdirSync(backups.path), statSync(file).mode & 0o777], [['sluice.db'], 0o600]);
      await using location = await to.emptyLocation();
      const restored = await sluice(location, 'database', 'restore', file);
      assert.equal(restored.code, 0, restored.stderr);
      assert.deepEqual(readdirSync(backups.path), ['sluice.db']);
      await using target = await openDatabase(location);
      assert.deepEqual(await contents(target), await contents(source));
      // Epochs and the triggers still work.
      const { epoch } = await target.kysely
        .insertInto('instances')
        .values({ live: 0, lease_until: 0, started_at: 0, pid: 1 })
        .returning('epoch')
        .executeTakeFirstOrThrow();
      assert.ok(epoch > 41, String(epoch));
      await assert.rejects(target.kysely.deleteFrom('audit').execute(), /append-only/);
    });
  }
}

test('a restore to SQLite that cannot replace the database keeps changes that are only in its write-ahead log', async (t) => {
  await using backups = await temporaryFolder();
  const file = join(backups.path, 'sluice.db');
  await using location = await SQLITE.location();
  const path = sqlitePath(location.home);
  {
    await using database = await openDatabase(location);
    assert.equal((await sluice(location, 'database', 'backup', file)).code, 0);
    await createKey(database, { name: 'in the log' });
    // As after a power failure.
    for (const suffix of ['', '-wal']) writeFileSync(`${path}${suffix}.kept`, readFileSync(path + suffix));
  }
  for (const suffix of ['', '-wal']) renameSync(`${path}${suffix}.kept`, path + suffix);
  const { rename } = promises;
  t.mock.method(promises, 'rename', (from: string, to: string) =>
    to === path ? Promise.reject(new Error('no space left')) : rename(from, to),
  );
  syncBuiltinESMExports();
  await assert.rejects(restoreDatabase(file, { ...location, overwrite: true }), /no space left/);
  t.mock.restoreAll();
  syncBuiltinESMExports();
  await using database = await openDatabase(location);
  const rows = await database.kysely.selectFrom('keys').select('name').execute();
  assert.deepEqual(plain(rows), [{ name: 'in the log' }]);
});

test('a restore to SQLite keeps a database that another process reads, with the changes in its write-ahead log', async () => {
  await using backups = await temporaryFolder();
  const file = join(backups.path, 'sluice.db');
  await using location = await SQLITE.location();
  {
    await using database = await openDatabase(location);
    assert.equal((await sluice(location, 'database', 'backup', file)).code, 0);
    using reader = new DatabaseSync(sqlitePath(location.home), { readOnly: true });
    reader.exec('begin; select count(*) from keys');
    await createKey(database, { name: 'in the log' });
    const { code, stderr } = await sluice(location, 'database', 'restore', file, '--overwrite');
    assert.deepEqual([code, /Another process uses the database/.test(stderr)], [1, true]);
    const rows = await database.kysely.selectFrom('keys').select('name').execute();
    assert.deepEqual(plain(rows), [{ name: 'in the log' }]);
  }
  await restoreDatabase(file, { ...location, overwrite: true });
  await using database = await openDatabase(location);
  assert.deepEqual(await database.kysely.selectFrom('keys').select('name').execute(), []);
});

test('a restore reads what is only in the write-ahead log of a copied database', async () => {
  await using copies = await temporaryFolder();
  await using source = await SQLITE.location();
  const file = join(copies.path, 'sluice.db');
  {
    await using database = await openDatabase(source);
    await createKey(database, { name: 'in the log' });
    for (const suffix of ['', '-wal'])
      writeFileSync(file + suffix, readFileSync(sqlitePath(source.home) + suffix));
  }
  await using location = await SQLITE.emptyLocation();
  await restoreDatabase(file, { ...location, overwrite: false });
  await using database = await openDatabase(location);
  const rows = await database.kysely.selectFrom('keys').select('name').execute();
  assert.deepEqual(plain(rows), [{ name: 'in the log' }]);
});

test('a restore to SQLite deletes the files of one that was killed', async () => {
  await using backups = await temporaryFolder();
  const file = join(backups.path, 'sluice.db');
  await using location = await SQLITE.location();
  {
    await using database = await openDatabase(location);
    await addRows(database);
  }
  assert.equal((await sluice(location, 'database', 'backup', file)).code, 0);
  const killed = join(location.home, 'restore-abcdef');
  mkdirSync(killed);
  writeFileSync(join(killed, 'sluice.db'), 'half of a copy');
  await restoreDatabase(file, { ...location, overwrite: true });
  assert.deepEqual(leftovers(location), []);
});

for (const kind of kinds) {
  describe(kind.name, () => {
    test('a restore replaces existing data only with --overwrite', async () => {
      await using backups = await temporaryFolder();
      const file = join(backups.path, 'sluice.db');
      await using location = await kind.location();
      await using kept = new AsyncDisposableStack();
      const database = kept.use(await openDatabase(location));
      await addRows(database);
      const before = await contents(database);
      assert.equal((await sluice(location, 'database', 'backup', file)).code, 0);
      await createKey(database, { name: 'later' });
      const later = await contents(database);
      const refused = await sluice(location, 'database', 'restore', file);
      assert.deepEqual([refused.code, /pass --overwrite/.test(refused.stderr)], [1, true]);
      assert.deepEqual(await contents(database), later);
      await kept.disposeAsync();
      assert.equal((await sluice(location, 'database', 'restore', '--overwrite', file)).code, 0);
      await using restored = await openDatabase(location);
      assert.deepEqual(await contents(restored), before);
    });

    test('a damaged, foreign or newer file is refused and changes nothing', async () => {
      await using backups = await temporaryFolder();
      await using database = await kind.open();
      await addRows(database);
      const before = await contents(database);
      const file = join(backups.path, 'sluice.db');
      assert.equal((await sluice(database, 'database', 'backup', file)).code, 0);
      const restore = (path: string) => restoreDatabase(path, { ...database, overwrite: true });
      const variant = (name: string, statements: string): string => {
        const path = join(backups.path, name);
        writeFileSync(path, readFileSync(file));
        using copy = new DatabaseSync(path, { enableForeignKeyConstraints: false });
        copy.exec(statements);
        return path;
      };
      const newer = variant('newer', "insert into migrations values ('9999_later', '')");
      await assert.rejects(restore(newer), fault('newer_schema', /9999_later/));
      const orphaned = variant('orphaned', "update keys set account_id = 'nobody'");
      await assert.rejects(restore(orphaned), fault('not_a_database', /rows of keys/));
      const foreign = variant('foreign', 'drop table migrations');
      await assert.rejects(restore(foreign), fault('not_a_database', /not a backup of a Sluice database/));
      const damaged = join(backups.path, 'damaged');
      writeFileSync(damaged, readFileSync(file).fill(7, 4096, 60_000));
      await assert.rejects(restore(damaged), fault('not_a_database'));
      const text = join(backups.path, 'text');
      writeFileSync(text, 'this is not a database, '.repeat(100));
      const unreadable = /^The backup \S+\/text cannot be read: file is not a database\.$/;
      await assert.rejects(restore(text), fault('not_a_database', unreadable));
      await assert.rejects(restore(join(backups.path, 'none')), fault('unwritable', /does not exist/));
      assert.deepEqual(await contents(database), before);
      assert.deepEqual(leftovers(database), []);
    });

    test('a restore is refused while a service runs on the database', async () => {
      await using backups = await temporaryFolder();
      const file = join(backups.path, 'sluice.db');
      await using database = await kind.open();
      assert.equal((await sluice(database, 'database', 'backup', file)).code, 0);
      using _lock = kind.name === 'SQLite' ? await ServiceLock.take(database.home) : null;
      const instance = { live: 1, lease_until: Date.now() + 60_000, started_at: 0, pid: 1 };
      await database.kysely.insertInto('instances').values(instance).execute();
      await assert.rejects(restoreDatabase(file, { ...database, overwrite: true }), fault('in_use'));
    });
  });
}

test(
  'Ctrl-C ends a restore, which changes nothing and leaves no files',
  { skip: withoutPostgres },
  async () => {
    await using backups = await temporaryFolder();
    const file = join(backups.path, 'sluice.db');
    await using database = await POSTGRES.open();
    await addRows(database);
    const before = await contents(database);
    assert.equal((await sluice(database, 'database', 'backup', file)).code, 0);
    const child = await database.kysely.transaction().execute(async (transaction) => {
      // The restore waits for this lock.
      await sql`lock table instances in access share mode`.execute(transaction);
      const restoring = start(['database', 'restore', '--overwrite', file], database.env);
      const ended = once(restoring, 'close');
      await until(async () => {
        const { rows } =
          await sql`select 1 from ${sql.raw(POSTGRES_LOCKS)} where not granted and relation = 'instances'::regclass`.execute(
            transaction,
          );
        return rows.length > 0;
      });
      assert.equal(leftovers(database).length, 1);
      restoring.kill('SIGINT');
      return await ended;
    });
    assert.deepEqual(child, [130, null]);
    assert.deepEqual(leftovers(database), []);
    assert.deepEqual(await contents(database), before);
  },
);

function leftovers({ home }: TestLocation): string[] {
  return readdirSync(home).filter((name) => name.startsWith('restore-'));
}

function sluice({ env }: TestLocation, ...args: string[]) {
  return runCli(args, { ...process.env, ...env });
}

async function addRows(database: Database): Promise<void> {
  const { kysely } = database;
  const march = Date.UTC(2024, 2, 31, 23, 59, 59);
  for (const at of [march, Date.now()]) await ensurePartitions(database, at);
  await kysely
    .insertInto('users')
    .values({ id: 'p1', name: 'Zoë', email: 'z@example.com', created_at: 1 })
    .execute();
  await createKey(database, {
    name: 'laptop "1"',
    limits: { tokensPerDay: 5 },
    expiresAt: 9_000_000_000_000,
  });
  await kysely
    .insertInto('memberships')
    .values({ account_id: 'default', user_id: 'p1', role: 'owner', created_at: 1 })
    .execute();
  for (let i = 0; i < 41; i++) {
    await kysely.insertInto('instances').values({ live: 0, lease_until: 0, started_at: i, pid: 1 }).execute();
  }
  // More rows than one statement has, and money that is not a safe integer.
  const ids = Array.from(
    { length: 1100 },
    (_, i) => `${firstIdAt(i < 600 ? march : Date.now()).slice(0, -4)}${1000 + i}`,
  );
  for (let start = 0; start < ids.length; start += 100) {
    const rows = ids
      .slice(start, start + 100)
      .map(
        (id) =>
          sql`(${id}, 'default', 'key_1', 'chat', 'a/b', 1, 1, 'settled', 1, 'p', '{}', 0, 0, 1, 1, 1, 2, 0, 3, 0, 1, 9007199254740993)`,
      );
    await sql`
      insert into ledger (id, account_id, key_id, endpoint, model, streamed, epoch, state, started_at, plan, limits,
        reserved_tokens, reserved_pico, price_prompt, price_completion, attempts, prompt_tokens, cached_tokens,
        completion_tokens, reasoning_tokens, billed, cost_pico)
      values ${sql.join(rows)}`.execute(kysely);
  }
}

/** Returns all rows, with 64-bit integers as text. */
async function contents({ kysely }: Database): Promise<Record<string, string[]>> {
  const entries = await Promise.all(
    TABLES.map(async (table) => {
      const { rows } =
        table === 'ledger'
          ? await sql<object>`select id, account_id, cast(cost_pico as text) as cost, replica from ledger`.execute(
              kysely,
            )
          : await sql<object>`select * from ${sql.table(table)}`.execute(kysely);
      return [table, rows.map((row) => JSON.stringify(row)).toSorted()] as const;
    }),
  );
  return Object.fromEntries(entries);
}
