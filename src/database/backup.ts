import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { asDatabaseError, DatabaseError } from './errors.ts';

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
  assertAbsent(file);
  const partial = `${file}.partial`;
  try {
    await createPrivate(partial);
    await copy(path, partial, options);
    assertAbsent(file);
    await rename(partial, file);
    await sync(dirname(file));
  } catch (error) {
    for (const leftover of [partial, `${partial}-journal`]) await rm(leftover, { force: true });
    options.signal?.throwIfAborted();
    throw asBackupError(error, file);
  }
}

async function copy(path: string, partial: string, { signal, onProgress }: BackupOptions): Promise<void> {
  const source = new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS });
  try {
    // Read one snapshot in all steps. Otherwise, each commit by another connection would restart the copy.
    source.exec('begin; select 1 from sqlite_master');
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

function assertAbsent(file: string): void {
  if (!existsSync(file)) return;
  throw new DatabaseError('unwritable', `The file ${file} already exists. Choose another name.`);
}

/** Creates an empty file with mode 0600, which SQLite fills. */
async function createPrivate(file: string): Promise<void> {
  const handle = await open(file, 'w', 0o600);
  try {
    await handle.chmod(0o600);
  } finally {
    await handle.close();
  }
}

/** Syncs the directory, so that the rename is durable. */
async function sync(directory: string): Promise<void> {
  const handle = await open(directory, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
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
