import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { backup, DatabaseSync } from 'node:sqlite';
import { asDatabaseError, DatabaseError } from './errors.ts';

/** Pages of the database copied between two looks at what else is to be done: 16 MiB. */
const PAGES_A_STEP = 4096;

/** How long to wait for a lock, which others hold for moments only, in milliseconds. */
const BUSY_MS = 5000;

export interface BackupOptions {
  signal?: AbortSignal;
  /** Told after each step how much of the whole is copied, from 0 to 1. */
  onProgress?: (fraction: number) => void;
}

/**
 * Copies the SQLite database at `path`, as it is at this moment, to a new `file` (mode 0600) while others read and
 * write it. The file has its name only when it is whole and on the disk. No tables are changed, of either. Rejects
 * with a `DatabaseError`: `unwritable` where there is no database, or a file of that name; or with the signal's
 * reason.
 */
export async function backupSqlite(path: string, file: string, options: BackupOptions = {}): Promise<void> {
  if (!existsSync(path)) throw new DatabaseError('unwritable', `No database found at ${path}.`);
  refuseToOverwrite(file);
  const partial = `${file}.partial`;
  try {
    await makePrivate(partial);
    await copy(path, partial, options);
    refuseToOverwrite(file);
    await rename(partial, file);
    await sync(dirname(file));
  } catch (error) {
    for (const rest of [partial, `${partial}-journal`]) await rm(rest, { force: true });
    options.signal?.throwIfAborted();
    throw asBackupError(error, file);
  }
}

async function copy(path: string, partial: string, { signal, onProgress }: BackupOptions): Promise<void> {
  const source = new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS });
  try {
    // One snapshot for all steps: without it each commit of others would begin the copy anew, for ever.
    source.exec('begin; select 1 from sqlite_master');
    await backup(source, partial, {
      rate: PAGES_A_STEP,
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

function refuseToOverwrite(file: string): void {
  if (!existsSync(file)) return;
  throw new DatabaseError('unwritable', `The file ${file} already exists. Choose another name.`);
}

/** An empty file for its owner alone, which SQLite fills. */
async function makePrivate(file: string): Promise<void> {
  const handle = await open(file, 'w', 0o600);
  try {
    await handle.chmod(0o600);
  } finally {
    await handle.close();
  }
}

/** A name is on the disk when its folder is. */
async function sync(folder: string): Promise<void> {
  const handle = await open(folder, 'r');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Errors of SQLite and of the file system alike, by the name of the backup. */
function asBackupError(error: unknown, file: string): unknown {
  const translated = asDatabaseError(error, file);
  if (translated instanceof DatabaseError || !(error instanceof Error) || !('code' in error))
    return translated;
  return new DatabaseError('unwritable', `Cannot write the backup ${file} (${error.message}).`, {
    cause: error,
  });
}
