import { stat } from 'node:fs/promises';
import { statSync, type BigIntStats } from 'node:fs';
import { DatabaseError } from '../../database/errors.ts';

/**
 * The files of an open SQLite database, remembered by device and inode. SQLite keeps writing to files that were
 * deleted or replaced, and what it writes there is lost when the process ends. While they are open their inodes
 * are not reused.
 */
export class DatabaseFile {
  readonly #path: string;
  readonly #files: ReadonlyMap<string, BigIntStats>;

  /** Remembers the files at `path` and of its write-ahead log as they are now. */
  constructor(path: string) {
    this.#path = path;
    this.#files = new Map(
      [path, `${path}-wal`].flatMap((file) => {
        const found = statSync(file, { bigint: true, throwIfNoEntry: false });
        return found === undefined ? [] : [[file, found] as const];
      }),
    );
  }

  /** Rejects with a `DatabaseError` `unwritable` while one of the files is deleted, moved or replaced. */
  async check(): Promise<void> {
    for (const [file, { dev, ino }] of this.#files) {
      const now = await stat(file, { bigint: true }).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null;
        throw error;
      });
      if (now !== null && now.nlink > 0n && now.dev === dev && now.ino === ino) continue;
      throw new DatabaseError(
        'unwritable',
        now === null
          ? `The file ${file} was deleted or moved while it was in use. Move the same file back, or restore a backup and restart the service.`
          : `The file ${file} was replaced while it was in use. Restart the service to use the new ${this.#path}.`,
      );
    }
  }
}
