import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import type { Secret } from '../support/secret.ts';
import { asDatabaseError, convertingErrors, DatabaseError } from './errors.ts';
import { refuseDirectory } from './sqlite-files.ts';

/** Pages copied per step. At the default page size of SQLite, this is 16 MiB. */
const PAGES_PER_STEP = 4096;

/** How long to wait for a lock, in milliseconds. */
const BUSY_MS = 5000;

export interface BackupOptions {
  signal?: AbortSignal;
  /** Called after each step with the copied fraction, from 0 to 1. */
  onProgress?: (fraction: number) => void;
}

/**
 * Copies a snapshot of the SQLite database at `path` to a new `file` (mode 0600), while other connections read and
 * write the database. The file gets its name only when it is complete and on disk. Rejects with the signal's reason, or
 * with a `DatabaseError`, which is `unwritable` if the database does not exist or `file` already exists.
 */
export async function backupSqlite(path: string, file: string, options: BackupOptions = {}): Promise<void> {
  if (!existsSync(path)) throw new DatabaseError('unwritable', `No database found at ${path}.`);
  refuseDirectory(path, 'database');
  await writeBackup(file, options, (partial) =>
    copy(
      convertingErrors(path, () => openSnapshot(path)),
      partial,
      options,
    ),
  );
}

/**
 * Copies a snapshot of a PostgreSQL database to a new `file`, as a SQLite database. Does not migrate the source.
 * Otherwise like `backupSqlite`.
 */
export async function backupPostgres(url: Secret, file: string, options: BackupOptions = {}): Promise<void> {
  // Loaded on demand, so that a service on SQLite starts without loading it.
  const [{ openPostgresReader }, { copyPostgres }] = await Promise.all([
    import('./postgres.ts'),
    import('./postgres-backup.ts'),
  ]);
  await using source = await openPostgresReader(url);
  await writeBackup(file, options, (partial) => copyPostgres(source.reports, partial, options));
}

/** Copies a backup to a new `file`, like `backupSqlite`. */
export async function copyBackup(backup: string, file: string): Promise<void> {
  await writeBackup(file, {}, (partial) =>
    copy(
      convertingErrors(backup, () => openBackup(backup)),
      partial,
    ),
  );
}

/**
 * Opens a backup to read it. Creates no files beside it, as long as it is one file: with a write-ahead log, it is a copy
 * of the files of an open database, and what only the log contains is read too.
 */
export function openBackup(path: string): DatabaseSync {
  const url = pathToFileURL(path);
  if (!existsSync(`${path}-wal`)) url.searchParams.set('immutable', '1');
  return new DatabaseSync(url, { readOnly: true });
}

/** Calls `write` with the path of an empty file, which gets the name `file` when it is complete and on disk. */
async function writeBackup(
  file: string,
  options: BackupOptions,
  write: (partial: string) => Promise<void>,
): Promise<void> {
  assertAbsent(file);
  // Another backup to the same file may be running, such as that of another instance.
  const partial = `${file}.${randomBytes(4).toString('hex')}.partial`;
  try {
    await createPrivate(partial);
    await write(partial);
    await syncPath(partial);
    assertAbsent(file);
    await rename(partial, file);
    await syncPath(dirname(file));
  } catch (error) {
    for (const suffix of ['', '-journal', '-wal', '-shm']) {
      // `error` is the reason if these cannot be deleted either.
      await rm(`${partial}${suffix}`, { force: true }).catch(() => {});
    }
    options.signal?.throwIfAborted();
    throw asBackupError(error, file);
  }
}

/** Copies a database to `partial`, and closes it. */
async function copy(
  source: DatabaseSync,
  partial: string,
  { signal, onProgress }: BackupOptions = {},
): Promise<void> {
  try {
    await backup(source, partial, {
      rate: PAGES_PER_STEP,
      progress: ({ totalPages, remainingPages }) => {
        signal?.throwIfAborted();
        onProgress?.(1 - remainingPages / totalPages);
      },
    });
    signal?.throwIfAborted();
    onProgress?.(1);
  } finally {
    source.close();
  }
}

/** Opens a connection that reads one snapshot. Otherwise, each commit by another connection would restart the copy. */
function openSnapshot(path: string): DatabaseSync {
  const source = new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS });
  try {
    source.exec('begin; select 1 from sqlite_master');
    return source;
  } catch (error) {
    source.close();
    throw error;
  }
}

function assertAbsent(file: string): void {
  if (!existsSync(file)) return;
  throw new DatabaseError('unwritable', `The file ${file} already exists. Choose another name.`);
}

/** Creates an empty file with mode 0600 for SQLite to fill. */
async function createPrivate(file: string): Promise<void> {
  await using handle = await open(file, 'wx', 0o600);
  await handle.chmod(0o600);
}

/** Syncs a file, or a directory with its new entries, to disk. */
export async function syncPath(path: string): Promise<void> {
  await using handle = await open(path, 'r');
  await handle.sync();
}

/** Converts errors of SQLite and the file system to a `DatabaseError` that names the backup. */
function asBackupError(error: unknown, file: string): unknown {
  const translated = asDatabaseError(error, file);
  if (translated instanceof DatabaseError || !(error instanceof Error) || !('code' in error))
    return translated;
  return new DatabaseError('unwritable', `Cannot write the backup ${file} (${error.message}).`, {
    cause: error,
  });
}
