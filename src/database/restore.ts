import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Secret } from '../support/secret.ts';
import { copyBackup, openBackup, syncPath } from './backup.ts';
import { openDatabase, sqlitePath } from './database.ts';
import { asDatabaseError, DatabaseError } from './errors.ts';
import { ServiceLock } from './service-lock.ts';
import { migrationsIn } from './sqlite.ts';
import { refuseDirectory } from './sqlite-files.ts';

export interface RestoreOptions {
  /** The data directory. */
  home: string;
  /** URL of the PostgreSQL database; null for SQLite in `home`. */
  url: Secret | null;
  /** Whether existing data is replaced. */
  overwrite: boolean;
}

/** How long to wait for a lock of another process, in milliseconds. */
const BUSY_MS = 1000;

/** Prefix of the folder in the data directory with the copy of a backup. */
const FOLDER = 'restore-';

/**
 * Replaces the database with a backup, after checking it and migrating a copy of it. Changes nothing if it rejects, or if
 * the process exits before it resolves.
 * Rejects with a `DatabaseError`: `not_a_database` if the backup is damaged or belongs to another program,
 * `newer_schema`, `in_use` if a service uses the database, or `unwritable` if there is a database and `overwrite` is
 * false, or a directory in place of a file.
 */
export async function restoreDatabase(backup: string, options: RestoreOptions): Promise<void> {
  const { home, url, overwrite } = options;
  checkBackup(backup);
  // No service can start on the data directory while the lock is held.
  using _lock = url === null ? await ServiceLock.take(home) : null;
  const path = sqlitePath(home);
  if (url === null) refuseDirectory(path, 'database');
  if (url === null && !overwrite && existsSync(path)) {
    throw new DatabaseError(
      'unwritable',
      `There is already a database: ${path}. To replace it, pass --overwrite.`,
    );
  }
  // The lock proves that no other restore to SQLite is running.
  if (url === null) deleteFolders(home);
  // In the data directory, so that the copy can be renamed to the database.
  const folder = mkdtempSync(join(home, FOLDER));
  const clean = () => rmSync(folder, { recursive: true, force: true });
  process.once('exit', clean);
  try {
    const copy = sqlitePath(folder);
    await copyBackup(backup, copy);
    const migrated = await openDatabase({ home: folder, url: null });
    await migrated[Symbol.asyncDispose]();
    if (url === null) await replaceFile(copy, path);
    else await (await import('./postgres-restore.ts')).fillPostgres(copy, url, overwrite);
  } finally {
    process.off('exit', clean);
    clean();
  }
}

/** Deletes what killed restores have left. */
function deleteFolders(home: string): void {
  for (const name of readdirSync(home))
    if (name.startsWith(FOLDER)) rmSync(join(home, name), { recursive: true, force: true });
}

/** Throws a `DatabaseError` if the file is not an intact backup of this or an earlier version. */
function checkBackup(path: string): void {
  if (!existsSync(path)) throw new DatabaseError('unwritable', `The backup ${path} does not exist.`);
  refuseDirectory(path, 'backup');
  try {
    using database = openBackup(path);
    const result = database.prepare('pragma integrity_check(1)').get()?.integrity_check;
    if (result !== 'ok') {
      throw new DatabaseError('not_a_database', `The backup ${path} is damaged: ${String(result)}.`);
    }
    if (migrationsIn(database, path).length === 0) {
      throw new DatabaseError('not_a_database', `The file ${path} is not a backup of a Sluice database.`);
    }
    const [violation] = database.prepare('pragma foreign_key_check').all();
    if (violation === undefined) return;
    const table = String(violation.table);
    throw new DatabaseError(
      'not_a_database',
      `The backup ${path} is damaged: rows of ${table} refer to missing rows.`,
    );
  } catch (error) {
    const converted = asDatabaseError(error, path);
    if (converted === error || !(converted instanceof DatabaseError)) throw error;
    // The message of `converted` gives advice about the service's own database.
    const reason = (error as Error).message;
    throw new DatabaseError(converted.fault, `The backup ${path} cannot be read: ${reason}.`, {
      cause: error,
    });
  }
}

/** Replaces a database. Its write-ahead log is deleted first, because SQLite would apply it to the new file. */
async function replaceFile(copy: string, path: string): Promise<void> {
  if (existsSync(path)) applyLog(path);
  for (const suffix of ['-wal', '-shm']) await rm(`${path}${suffix}`, { force: true });
  // After a power failure, the log must not be there without the database that it belongs to.
  await syncPath(dirname(path));
  await rename(copy, path);
  await syncPath(dirname(path));
}

/**
 * Copies the changes of the write-ahead log to the database, which keeps them if it cannot be replaced. Throws a
 * `DatabaseError` `in_use` if another process reads or writes the database for too long.
 */
function applyLog(path: string): void {
  let isBusy: boolean;
  try {
    using database = new DatabaseSync(path, { timeout: BUSY_MS });
    isBusy = database.prepare('pragma wal_checkpoint(truncate)').get()?.busy === 1;
  } catch {
    // A damaged database has to be replaced too.
    return;
  }
  if (!isBusy) return;
  throw new DatabaseError(
    'in_use',
    `Another process uses the database ${path}. Try again when it has ended.`,
  );
}
