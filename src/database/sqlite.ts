import { accessSync, closeSync, constants, fchmodSync, openSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { Kysely } from 'kysely';
import { asDatabaseError, convertingErrors, DatabaseError } from './errors.ts';
import { assertKnownMigrations, migrate } from './migrations.ts';
import { ACCESS_REVISION, type Schema } from './schema.ts';
import { NodeSqliteDialect } from './sqlite-dialect.ts';
import { assertInPlace, openFiles, type OpenFile } from './sqlite-files.ts';
import { SqliteReaderDialect } from './sqlite-reader.ts';

/** How long a statement waits for the lock of another process, in milliseconds. */
const BUSY_MS = 5000;

/**
 * Maximum attempts of a background statement, which do not wait for the lock, because that would block the event loop.
 * Under load, the gaps between ledger writes are shorter than a millisecond, so one attempt rarely succeeds.
 */
const BACKGROUND_ATTEMPTS = 50;

interface SqliteOptions {
  /** Whether `reports` uses a thread. */
  threads: boolean;
  onMigration: ((name: string) => void) | undefined;
}

/** Opens a `Database` in a file, created with mode 0600 if necessary. Rejects with a `DatabaseError`. */
export async function openSqlite(path: string, options: SqliteOptions) {
  try {
    protect(path);
    return await open(path, options);
  } catch (error) {
    throw asDatabaseError(error, path);
  }
}

/**
 * Sets the mode of the database file before SQLite opens it, because SQLite creates its other files with the same mode.
 */
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

/** Throws an error if `openSqlite` would refuse the existing file at `path`. Does not change its data. */
export function checkSqlite(path: string): void {
  accessSync(path, constants.R_OK | constants.W_OK);
  convertingErrors(path, () => {
    // A read-only connection would leave files behind.
    using connection = new DatabaseSync(path, { timeout: BUSY_MS });
    migrationsIn(connection, path);
  });
}

/** Returns the migrations of a database; none if it has no tables. Throws a `DatabaseError` `newer_schema`. */
export function migrationsIn(connection: DatabaseSync, path: string): string[] {
  const tables = connection.prepare("select name from sqlite_schema where name = 'migrations'").all();
  const rows = tables.length === 0 ? [] : connection.prepare('select name from migrations').all();
  const names = rows.map(({ name }) => String(name));
  assertKnownMigrations(names, path);
  return names;
}

async function open(path: string, { threads, onMigration }: SqliteOptions) {
  const main = await connect(path, BUSY_MS);
  const files: OpenFile[] = [];
  const beforeWrite = () => assertInPlace(files);
  const kysely = new Kysely<Schema>({ dialect: new NodeSqliteDialect(main, path, beforeWrite) });
  try {
    await migrate(kysely, 'sqlite', path, onMigration);
    // All files exist after the first read.
    files.push(...openFiles(path));
    const backgroundConnection = await connect(path, 0);
    const background = new Kysely<Schema>({
      dialect: new NodeSqliteDialect(backgroundConnection, path, beforeWrite, BACKGROUND_ATTEMPTS),
    });
    const reports = threads ? new Kysely<Schema>({ dialect: new SqliteReaderDialect(path) }) : kysely;
    const revision = backgroundConnection.prepare('select value from settings where name = ?');
    return {
      location: { kind: 'sqlite' as const, path, files },
      kysely,
      background,
      reports,
      accessRevision: () => {
        assertInPlace(files);
        try {
          return Number(revision.get(ACCESS_REVISION)?.value);
        } catch (error) {
          throw asDatabaseError(error, path);
        }
      },
      async [Symbol.asyncDispose]() {
        await reports.destroy();
        await background.destroy();
        await kysely.destroy();
        // Kysely closes only connections that it has used.
        for (const connection of [backgroundConnection, main]) if (connection.isOpen) connection.close();
      },
    };
  } catch (error) {
    main.close();
    throw error;
  }
}

/**
 * Opens a connection in WAL mode. Retries if the database is busy, because enabling WAL needs exclusive access for a
 * moment and ignores the busy timeout.
 */
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
