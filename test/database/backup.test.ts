import assert from 'node:assert/strict';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { sql } from 'kysely';
import { backupSqlite } from '../../src/database/backup.ts';
import { openDatabase } from '../../src/database/database.ts';
import { fault } from './faults.ts';

/** A data directory with a database, and a folder for backups. */
async function home() {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-backup-'));
  await using owned = new AsyncDisposableStack();
  owned.defer(() => rm(folder, { recursive: true, force: true }));
  const backups = join(folder, 'backups');
  await mkdir(backups);
  const database = owned.use(await openDatabase({ home: folder, url: null }));
  const resources = owned.move();
  const path = join(folder, 'sluice.db');
  return { folder, path, backups, database, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

/** Commits rows continuously from a thread, as a service does, until it is stopped. */
const WRITER = `
const { workerData, parentPort } = require('node:worker_threads');
const { DatabaseSync } = require('node:sqlite');
const connection = new DatabaseSync(workerData, { timeout: 5000 });
const insert = connection.prepare("insert into settings values (?, ?)");
for (let i = 0; ; i += 1) {
  insert.run('a' + i, 'x');
  insert.run('b' + i, 'x');
  if (i === 0) parentPort.postMessage('writing');
}`;

describe('a backup', () => {
  test('is a complete snapshot while others write continuously', async () => {
    await using here = await home();
    // Enough for several steps.
    await sql`
      with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 40000)
      insert into settings select 'n' || n, hex(randomblob(500)) from numbers`.execute(here.database.kysely);
    const writer = new Worker(WRITER, { eval: true, workerData: here.path });
    try {
      await new Promise((writing) => writer.once('message', writing));
      const file = join(here.backups, 'sluice.db');
      const seen: number[] = [];
      await backupSqlite(here.path, file, { onProgress: (fraction) => seen.push(fraction) });
      assert.ok(seen.length > 1 && seen.at(-1) === 1);
      assert.deepEqual(
        seen,
        seen.toSorted((a, b) => a - b),
      );
      assert.deepEqual(readdirSync(here.backups), ['sluice.db']);
      assert.equal(statSync(file).mode & 0o777, 0o600);
      const copy = new DatabaseSync(file);
      assert.equal(copy.prepare('pragma integrity_check').get()?.integrity_check, 'ok');
      const count = (like: string) =>
        Number(copy.prepare('select count(*) as n from settings where name like ?').get(like)?.n);
      assert.equal(count('n%'), 40_000);
      // Three settings of the service also begin with an `a`.
      const [first, second] = [count('a%') - 3, count('b%')];
      assert.ok(first === second || first === second + 1, `${first} and ${second}`);
      copy.close();
    } finally {
      await writer.terminate();
    }
  });

  test('can be opened and contains everything that was committed before', async () => {
    await using here = await home();
    await here.database.kysely.insertInto('settings').values({ name: 'a', value: '1' }).execute();
    await backupSqlite(here.path, join(here.backups, 'sluice.db'));
    await using copy = await openDatabase({ home: here.backups, url: null });
    const rows = await copy.kysely.selectFrom('settings').selectAll().orderBy('name').execute();
    const before = await here.database.kysely.selectFrom('settings').selectAll().orderBy('name').execute();
    assert.deepEqual(rows, before);
  });

  test('does not overwrite an existing file', async () => {
    await using here = await home();
    const file = join(here.backups, 'sluice.db');
    writeFileSync(file, 'mine');
    await assert.rejects(backupSqlite(here.path, file), fault('unwritable', /already exists/));
    assert.equal(await readFile(file, 'utf8'), 'mine');
    assert.deepEqual(readdirSync(here.backups), ['sluice.db']);
  });

  test('leaves no files when it is interrupted', async () => {
    await using here = await home();
    const stop = new AbortController();
    const stopped = new Error('enough');
    await sql`
      with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 40000)
      insert into settings select 'n' || n, hex(randomblob(500)) from numbers`.execute(here.database.kysely);
    const making = backupSqlite(here.path, join(here.backups, 'sluice.db'), {
      signal: stop.signal,
      onProgress: () => stop.abort(stopped),
    });
    await assert.rejects(making, stopped);
    assert.deepEqual(readdirSync(here.backups), []);
  });

  test('fails without leaving files if the source is not a database or the target cannot be written', async () => {
    await using here = await home();
    const file = join(here.backups, 'sluice.db');
    const letter = join(here.folder, 'letter.txt');
    await writeFile(letter, 'this is a letter to my grandmother, '.repeat(100));
    await assert.rejects(backupSqlite(letter, file), fault('not_a_database', /letter\.txt is not a/));
    await assert.rejects(backupSqlite(here.backups, file), fault('unwritable', /The database \S+backups /));
    await assert.rejects(
      backupSqlite(join(here.folder, 'none'), file),
      fault('unwritable', /No database found at/),
    );
    const nowhere = join(here.folder, 'nowhere', 'sluice.db');
    await assert.rejects(backupSqlite(here.path, nowhere), fault('unwritable', /ENOENT/));
    assert.deepEqual(readdirSync(here.backups), []);
  });

  test('is complete although another one to the same file runs at the same time', async () => {
    await using here = await home();
    const file = join(here.backups, 'sluice.db');
    const made = await Promise.allSettled([backupSqlite(here.path, file), backupSqlite(here.path, file)]);
    assert.ok(
      made.some(({ status }) => status === 'fulfilled'),
      String(made.map((one) => 'reason' in one && one.reason)),
    );
    assert.deepEqual(readdirSync(here.backups), ['sluice.db']);
    using copy = new DatabaseSync(file, { readOnly: true });
    assert.equal(copy.prepare('pragma integrity_check').get()?.integrity_check, 'ok');
  });
});
