import { accessSync, closeSync, constants, fchmodSync, openSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { Kysely } from 'kysely';
import { convertingErrors, DatabaseError } from './errors.ts';
import {
  assertKnownMigrations,
  isMigrated,
  migrate,
  type MigrationOptions,
  olderSchema,
} from './migrations.ts';
import { ACCESS_REVISION, type Schema } from './schema.ts';
import { SqliteClient } from './sqlite-client.ts';
import type { SqliteQuery } from './sqlite-connection.ts';
import { NodeSqliteDialect } from './sqlite-dialect.ts';
import { openFiles, refuseDirectory, type OpenFile } from './sqlite-files.ts';
import { messageOf } from '../support/thrown.ts';

/** How long a background statement waits for the lock of another process, in milliseconds. */
const BACKGROUND_MS = 250;

/** How long a check waits for the lock of another process, in milliseconds. */
const CHECK_BUSY_MS = 5000;

interface SqliteOptions {
  /** Whether statements run in threads. */
  threads: boolean;
  /** Default: all migrations are applied. */
  migration?: MigrationOptions;
}

/** Opens a `Database` in a file, created with mode 0600 if necessary. Rejects with a `DatabaseError`. */
export async function openSqlite(path: string, { threads, migration = {} }: SqliteOptions) {
  protect(path);
  const files: OpenFile[] = [];
  const options = { path, files, readOnly: false };
  await using owned = new AsyncDisposableStack();
  // With threads, it is idle after the migrations. It keeps the database open if a thread dies: the last connection
  // that is closed deletes the write-ahead log, which would then have been replaced.
  const local = owned.use(SqliteClient.inProcess(options));
  const tables = kyselyOf(local);
  if (migration.migrates !== false) await migrate(tables, 'sqlite', path, migration.onMigration);
  else if (!(await isMigrated(tables, 'sqlite', path))) throw olderSchema(path);
  // All files exist after the first read.
  files.push(...openFiles(path));
  const client = threads ? owned.use(SqliteClient.inThread(options)) : local;
  const reader = threads ? owned.use(SqliteClient.inThread({ ...options, readOnly: true })) : null;
  const kysely = kyselyOf(client);
  const background = kyselyOf(client, { patienceMs: BACKGROUND_MS });
  const reports = reader === null ? kysely : kyselyOf(reader, { checksReads: true });
  const revision: SqliteQuery = {
    sql: 'select value from settings where name = ?',
    parameters: [ACCESS_REVISION],
    inTransaction: false,
    checksFiles: true,
  };
  const resources = owned.move();
  return {
    location: { kind: 'sqlite' as const, path, files, client },
    kysely,
    background,
    reports,
    accessRevision: async () => {
      const { rows } = await client.run(revision);
      // The column of the query.
      const [row] = rows as { value: string }[];
      return Number(row?.value);
    },
    async [Symbol.asyncDispose]() {
      for (const one of [reports, background, kysely]) await one.destroy();
      await resources.disposeAsync();
    },
  };
}

function kyselyOf(...dialect: ConstructorParameters<typeof NodeSqliteDialect>): Kysely<Schema> {
  return new Kysely<Schema>({ dialect: new NodeSqliteDialect(...dialect) });
}

/**
 * Sets the mode of the database file before SQLite opens it, because SQLite creates its other files with the same mode.
 */
function protect(path: string): void {
  refuseDirectory(path, 'database');
  try {
    const file = openSync(path, 'a', 0o600);
    fchmodSync(file, 0o600);
    closeSync(file);
  } catch (error) {
    throw new DatabaseError(
      'unwritable',
      `The database ${path} cannot be opened for writing (${messageOf(error)}).`,
      { cause: error },
    );
  }
}

/** Throws an error if `openSqlite` would refuse the existing file at `path`. Does not change its data. */
export function checkSqlite(path: string): void {
  refuseDirectory(path, 'database');
  accessSync(path, constants.R_OK | constants.W_OK);
  convertingErrors(path, () => {
    // A read-only connection would leave files behind.
    using connection = new DatabaseSync(path, { timeout: CHECK_BUSY_MS });
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
