import { existsSync, statSync } from 'node:fs';
import { DatabaseError } from './errors.ts';

/** An open file. A deleted file keeps its device and inode while it is open. */
export interface OpenFile {
  path: string;
  /** Device and inode. */
  identity: string;
}

/** Returns the files of an open SQLite database: the database, its write-ahead log, and the index of that log. */
export function openFiles(path: string): OpenFile[] {
  return [path, `${path}-wal`, `${path}-shm`].flatMap((file) => {
    const identity = identityOf(file);
    return identity === null ? [] : [{ path: file, identity }];
  });
}

/**
 * Throws a `DatabaseError` `replaced` if a file was deleted, moved or replaced, because writes to it would be lost.
 * Takes about 10 µs. Does not open the files, because closing a descriptor would release SQLite's locks.
 */
export function assertInPlace(files: readonly OpenFile[]): void {
  for (const { path, identity } of files) {
    const found = identityOf(path);
    if (found === identity) continue;
    throw new DatabaseError(
      'replaced',
      found === null
        ? `The file ${path} was deleted or moved while it was in use. Move the same file back, or restore a backup and restart the service.`
        : `The file ${path} was replaced while it was in use. Restart the service to use the new file, or move the original back.`,
    );
  }
}

/** Throws a `DatabaseError` `unwritable` if the path is a directory, which SQLite reports as a failure of the disk. */
export function refuseDirectory(path: string, what: 'database' | 'backup'): void {
  if (!existsSync(path) || !statSync(path).isDirectory()) return;
  throw new DatabaseError('unwritable', `The ${what} ${path} is a directory, not a file.`);
}

function identityOf(path: string): string | null {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? null : `${found.dev}:${found.ino}`;
}
