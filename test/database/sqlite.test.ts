import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { sql } from 'kysely';
import { openDatabase } from '../../src/database/database.ts';
import { asDatabaseError, DatabaseError } from '../../src/database/errors.ts';
import { fault, plain } from './faults.ts';

function folder(context: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'sluice-database-'));
  context.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

test('only the owner can read the database and its other files', async (t) => {
  const home = folder(t);
  await using _database = await openDatabase({ home, url: null });
  for (const name of ['sluice.db', 'sluice.db-wal', 'sluice.db-shm']) {
    assert.equal(statSync(join(home, name)).mode & 0o777, 0o600, name);
  }
});

test('a database file that others can read becomes private', async (t) => {
  const home = folder(t);
  await (await openDatabase({ home, url: null }))[Symbol.asyncDispose]();
  chmodSync(join(home, 'sluice.db'), 0o644);
  await using _database = await openDatabase({ home, url: null });
  assert.equal(statSync(join(home, 'sluice.db')).mode & 0o777, 0o600);
});

test('commits are durable: WAL with full synchronization, and foreign keys are enforced', async (t) => {
  await using database = await openDatabase({ home: folder(t), url: null });
  for (const kysely of [database.kysely, database.background]) {
    const settings = await Promise.all([
      sql`pragma journal_mode`.execute(kysely),
      sql`pragma synchronous`.execute(kysely),
      sql`pragma foreign_keys`.execute(kysely),
    ]);
    assert.deepEqual(plain(settings.flatMap(({ rows }) => rows)), [
      { journal_mode: 'wal' },
      { synchronous: 2 },
      { foreign_keys: 1 },
    ]);
  }
});

test('the background connection does not wait for a lock', async (t) => {
  const home = folder(t);
  await using database = await openDatabase({ home, url: null });
  const other = new DatabaseSync(join(home, 'sluice.db'));
  other.exec('begin immediate');
  await assert.rejects(
    database.background.updateTable('accounts').set({ name: 'A' }).execute(),
    fault('busy'),
  );
  other.exec('rollback');
  other.close();
  await database.background.updateTable('accounts').set({ name: 'A' }).execute();
});

test('a value without a SQLite type is refused and not stored as NULL', async (t) => {
  await using database = await openDatabase({ home: folder(t), url: null });
  for (const value of [undefined, new Date(), true]) {
    await assert.rejects(sql`select ${value}`.execute(database.kysely), /SQLite has no type for/);
  }
});

test('a file that is not a database is refused and left alone', async (t) => {
  const home = folder(t);
  const path = join(home, 'sluice.db');
  writeFileSync(path, 'this is a letter to my grandmother, '.repeat(100));
  await assert.rejects(
    openDatabase({ home, url: null }),
    fault('not_a_database', /is not a SQLite database: move the file away/),
  );
  assert.equal(statSync(path).size, 3600);
});

test('a missing folder, or a folder instead of the file, is an unwritable database', async (t) => {
  const home = folder(t);
  await assert.rejects(
    openDatabase({ home: join(home, 'nowhere'), url: null }),
    fault('unwritable', /ENOENT/),
  );
  mkdirSync(join(home, 'sluice.db'));
  await assert.rejects(openDatabase({ home, url: null }), fault('unwritable', /is a directory/));
});

test('a full disk is reported, and the database works again when there is space', async (t) => {
  await using database = await openDatabase({ home: folder(t), url: null });
  const insert = (name: string) =>
    database.kysely
      .insertInto('settings')
      .values({ name, value: 'x'.repeat(1_000_000) })
      .execute();
  // SQLite reports its page limit with the code of a full disk.
  const { rows } = await sql<{ page_count: number }>`pragma page_count`.execute(database.kysely);
  await sql.raw(`pragma max_page_count = ${rows[0]?.page_count}`).execute(database.kysely);
  await assert.rejects(insert('big'), fault('full', /the disk is full/));
  await sql`pragma max_page_count = 1000000`.execute(database.kysely);
  await insert('big');
});

test('a disk that has no space to open the database is full', () => {
  // SQLITE_IOERR_SHMSIZE
  const error = asDatabaseError(
    Object.assign(new Error('disk I/O error'), { errcode: 4874 }),
    '/a/sluice.db',
  );
  assert.ok(error instanceof DatabaseError);
  assert.deepEqual(
    [error.fault, error.message],
    ['full', 'The database /a/sluice.db cannot grow: the disk is full.'],
  );
});

test('errors that are not from SQLite are unchanged', () => {
  const error = new TypeError('x');
  assert.equal(asDatabaseError(error, 'a'), error);
  const odd = asDatabaseError(Object.assign(new Error('odd'), { errcode: 21 }), '/a/sluice.db');
  assert.ok(odd instanceof DatabaseError);
  assert.equal(odd.message, 'The database /a/sluice.db failed: odd.');
});
