import { join } from 'node:path';
import type { Kysely } from 'kysely';
import type { Secret } from '../support/secret.ts';
import type { MigrationOptions } from './migrations.ts';
import type { Schema } from './schema.ts';
import { runningService } from './service-lock.ts';
import { openSqlite } from './sqlite.ts';
import type { SqliteClient } from './sqlite-client.ts';
import { assertInPlace, type OpenFile } from './sqlite-files.ts';

/** The location of a database: for opening more connections on PostgreSQL, or for sharing the one of SQLite. */
type DatabaseLocation =
  | { kind: 'sqlite'; path: string; files: readonly OpenFile[]; client: SqliteClient }
  | { kind: 'postgres'; url: Secret };

/** The open database of one process. All failures are `DatabaseError`s. */
export interface Database extends AsyncDisposable {
  readonly location: DatabaseLocation;
  readonly kysely: Kysely<Schema>;
  /**
   * For background work, which fails soon with `busy` if the database is locked. On PostgreSQL, it uses separate
   * connections.
   */
  readonly background: Kysely<Schema>;
  /**
   * For long queries, which must be read-only. On PostgreSQL and on SQLite with the option `threads`, it uses separate
   * connections.
   */
  readonly reports: Kysely<Schema>;
  /**
   * Returns a number that increases with every commit that changes access rights (keys and accounts, but not a
   * key's last use). For polling: on PostgreSQL, it uses a separate connection.
   */
  accessRevision(): Promise<number>;
}

export interface DatabaseOptions extends MigrationOptions {
  /** The directory of `sluice.db`, which must exist. Not used with `url`. */
  home: string;
  /** URL of the PostgreSQL database. If null, SQLite in `home` is used. */
  url: Secret | null;
  /**
   * Whether SQLite runs in threads, one that reads reports and one for everything else, so that it does not block the
   * event loop. The service sets it; commands do not, because they would start more slowly. Default: false.
   */
  threads?: boolean;
}

/**
 * Opens the database, creates it if necessary, and migrates its tables, unless `migrates` is false. Several processes may open it at the same
 * time. Rejects with a `DatabaseError`, or with an `AbortError` if `signal` stopped it.
 */
export async function openDatabase({
  home,
  url,
  threads = false,
  ...migration
}: DatabaseOptions): Promise<Database> {
  if (url === null) {
    assertNotMoved(home);
    return await openSqlite(sqlitePath(home), { threads, migration });
  }
  // Loaded on demand, so that a service on SQLite starts without loading it.
  const { openPostgres } = await import('./postgres.ts');
  return await openPostgres(url, migration);
}

/**
 * Throws a `DatabaseError` `replaced` if a running service uses an SQLite database in `home` that was deleted, moved or
 * replaced. Call it before opening that database, which would create files in their place.
 */
export function assertNotMoved(home: string): void {
  assertInPlace(runningService(home)?.files ?? []);
}

/** Returns the path of the SQLite database in a data directory. */
export function sqlitePath(home: string): string {
  return join(home, 'sluice.db');
}
