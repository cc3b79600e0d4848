import { closeSync, fchmodSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { Kysely } from 'kysely';
import { asDatabaseError, DatabaseError } from './errors.ts';
import { migrate } from './migrations.ts';
import type { Schema } from './schema.ts';
import { NodeSqliteDialect } from './sqlite-dialect.ts';

/** The open database of one process. Everything that fails in it fails with a `DatabaseError`. */
export interface Database extends AsyncDisposable {
  readonly kysely: Kysely<Schema>;
  /**
   * The same tables for work that nobody waits for, over a connection that is `busy` at once instead of waiting
   * for another process's lock: waiting would hold up the event loop.
   */
  readonly background: Kysely<Schema>;
  /**
   * A number that is another one after any commit except those through `background`. Costs 4 µs: it is for
   * polling, to see what other processes have done.
   */
  revision(): number;
}

/** How long a statement waits for another process's lock, in milliseconds. */
const BUSY_MS = 5000;

/**
 * Opens `sluice.db` in a folder that exists, makes it (mode 0600) where it is not there yet, and brings its tables
 * to the newest version. Several processes may have it open, and open it, at once. Rejects with a `DatabaseError`.
 */
export async function openDatabase(home: string): Promise<Database> {
  const path = join(home, 'sluice.db');
  try {
    protect(path);
    return await openSqlite(path);
  } catch (error) {
    throw asDatabaseError(error, path);
  }
}

/** SQLite gives its files beside the database the mode of the database, which so has to be right from the start. */
function protect(path: string): void {
  try {
    const file = openSync(path, 'a', 0o600);
    fchmodSync(file, 0o600);
    closeSync(file);
  } catch (error) {
    throw new DatabaseError(
      'unwritable',
      `The database ${path} cannot be opened for writing (${error instanceof Error ? error.message : String(error)}).`,
      { cause: error },
    );
  }
}

async function openSqlite(path: string): Promise<Database> {
  const main = await connect(path, BUSY_MS);
  const kysely = new Kysely<Schema>({ dialect: new NodeSqliteDialect(main, path) });
  try {
    await migrate(kysely, path);
    const side = await connect(path, 0);
    const background = new Kysely<Schema>({ dialect: new NodeSqliteDialect(side, path) });
    const version = side.prepare('pragma data_version');
    return {
      kysely,
      background,
      revision: () => {
        try {
          return Number(version.get()?.data_version);
        } catch (error) {
          throw asDatabaseError(error, path);
        }
      },
      async [Symbol.asyncDispose]() {
        await background.destroy();
        await kysely.destroy();
        // Kysely closes only connections it has used.
        for (const connection of [side, main]) if (connection.isOpen) connection.close();
      },
    };
  } catch (error) {
    main.close();
    throw error;
  }
}

/** Turning WAL on wants the file alone for a moment and does not wait for it as other statements do. */
async function connect(path: string, timeout: number): Promise<DatabaseSync> {
  const connection = new DatabaseSync(path, { timeout, enableForeignKeyConstraints: true });
  const deadline = performance.now() + BUSY_MS;
  for (;;) {
    try {
      connection.exec('pragma journal_mode = wal; pragma synchronous = full');
      return connection;
    } catch (error) {
      const translated = asDatabaseError(error, path);
      const busy = translated instanceof DatabaseError && translated.fault === 'busy';
      if (!busy || performance.now() > deadline) {
        connection.close();
        throw translated;
      }
      await pause(20);
    }
  }
}
