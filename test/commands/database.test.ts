import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { openDatabase } from '../../src/database/database.ts';
import { testDatabases } from '../support/servers.ts';
import { folder, run } from './program.ts';

for (const databases of testDatabases()) {
  describe(databases.name, () => {
    test('database migrate creates the tables, prints each step, and has nothing to do the second time', async () => {
      await using location = await databases.emptyLocation();
      const first = await run(['database', 'migrate'], location.env);
      assert.deepEqual([first.code, first.stdout], [0, '']);
      assert.match(
        first.stderr,
        /^Applying 0001_keys …\n(Applying \w+ …\n)+The database was migrated to this version\.\n$/,
      );
      const second = await run(['database', 'migrate'], location.env);
      assert.deepEqual([second.code, second.stderr], [0, 'The database is up to date.\n']);
      await using database = await openDatabase(location);
      assert.equal((await database.kysely.selectFrom('accounts').select('id').execute()).length, 1);
    });
  });
}

test('database backup copies the database and prints the path of the copy', async (t) => {
  const home = folder(t);
  const backups = folder(t);
  await using _database = await openDatabase({ home, url: null });
  const file = join(backups, 'sluice.db');
  const result = await run(['database', 'backup', file], { SLUICE_HOME: home });
  assert.deepEqual(result, { code: 0, stdout: '', stderr: `Backup written to ${file}\n` });
  const again = await run(['database', 'backup', file], { SLUICE_HOME: home });
  assert.equal(again.code, 1);
  assert.match(again.stderr, /already exists/);
  assert.deepEqual(readdirSync(backups), ['sluice.db']);
});

test('database backup copies a database of an older version without migrating it', async (t) => {
  const home = folder(t);
  const old = new DatabaseSync(join(home, 'sluice.db'));
  old.exec('create table settings (name text, value text)');
  old.close();
  const file = join(home, 'copy.db');
  assert.equal((await run(['database', 'backup', file], { SLUICE_HOME: home })).code, 0);
  const copy = new DatabaseSync(file);
  const tables = copy.prepare('select name from sqlite_master').all();
  copy.close();
  assert.deepEqual(
    tables.map(({ name }) => name),
    ['settings'],
  );
});

test('a directory instead of a database or a backup is named in one line, and is left alone', async (t) => {
  const home = folder(t);
  const intact = folder(t);
  const env = { SLUICE_HOME: home };
  {
    await using _database = await openDatabase({ home: intact, url: null });
  }
  const file = join(folder(t), 'backup.db');
  assert.equal((await run(['database', 'backup', file], { SLUICE_HOME: intact })).code, 0);
  const path = join(home, 'sluice.db');
  mkdirSync(path);
  writeFileSync(join(home, 'sluice.db-wal'), 'kept');
  const stderr = `The database ${path} is a directory, not a file.\n`;
  for (const args of [
    ['restore', file],
    ['restore', file, '--overwrite'],
    ['backup', `${file}.2`],
  ]) {
    assert.deepEqual(await run(['database', ...args], env), { code: 1, stdout: '', stderr }, args.join(' '));
  }
  const doctor = await run(['doctor'], { ...env, SLUICE_PORT: '0' });
  assert.match(doctor.stdout, /^FAIL {2}database +The database .* is a directory, not a file\.$/m);
  assert.deepEqual(await run(['database', 'restore', home, '--overwrite'], { SLUICE_HOME: intact }), {
    code: 1,
    stdout: '',
    stderr: `The backup ${home} is a directory, not a file.\n`,
  });
  assert.deepEqual(
    readdirSync(home).filter((name) => name.startsWith('sluice.db')),
    ['sluice.db', 'sluice.db-wal'],
  );
});

test('a backup whose path leads through a file is refused in one line', async (t) => {
  const home = folder(t);
  await using _database = await openDatabase({ home, url: null });
  const file = join(home, 'sluice.db', 'backup.db');
  const { code, stderr } = await run(['database', 'backup', file], { SLUICE_HOME: home });
  assert.equal(code, 1);
  assert.match(stderr, /^Cannot write the backup \S+ \(ENOTDIR: .*\)\.\n$/);
});
