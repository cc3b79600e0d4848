import { join } from 'node:path';
import type { Kysely } from 'kysely';
import type { Secret } from '../secret.ts';
import type { Schema } from './schema.ts';
import { runningService } from './service-lock.ts';
import { openSqlite } from './sqlite.ts';
import { assertInPlace, type OpenFile } from './sqlite-files.ts';

/** Where a database is, for those who need connections of their own. */
type DatabasePlace =
  | { kind: 'sqlite'; path: string; files: readonly OpenFile[] }
  | { kind: 'postgres'; url: Secret };

/** The open database of one process. Everything that fails in it fails with a `DatabaseError`. */
export interface Database extends AsyncDisposable {
  readonly place: DatabasePlace;
  readonly kysely: Kysely<Schema>;
  /**
   * The same tables for work that nobody waits for, over connections of its own that soon give up (`busy`) where
   * others hold a lock: on SQLite waiting would hold up the event loop.
   */
  readonly background: Kysely<Schema>;
  /**
   * The same tables for questions that may take long. On SQLite with `threads` they are read in a thread and the
   * event loop goes on; on PostgreSQL over connections of their own, so that no request waits for one of those. Both
   * then refuse to write.
   */
  readonly reports: Kysely<Schema>;
  /**
   * A number that rises with every commit that changes who may do what: keys and accounts, but not when a key was
   * last used. For polling: 2 µs on SQLite, a query on PostgreSQL that waits for no other's.
   */
  accessRevision(): number | Promise<number>;
}

export interface DatabaseOptions {
  /** Folder of `sluice.db`; it exists. Not used where there is a `url`. */
  home: string;
  /** PostgreSQL; null: SQLite in the home. */
  url: Secret | null;
  /**
   * Whether others wait for this process's event loop. Only then does SQLite read reports in a thread: to start it
   * takes as long as a command may take. Default: false.
   */
  threads?: boolean;
  /** Told the name of each migration before it is applied: one may take long where there are many rows. */
  onMigration?: (name: string) => void;
}

/**
 * Opens the database, makes it where it is not there yet, and brings its tables to the newest version. Several
 * processes may have it open, and open it, at once. Rejects with a `DatabaseError`.
 */
export async function openDatabase({
  home,
  url,
  threads = false,
  onMigration,
}: DatabaseOptions): Promise<Database> {
  if (url === null) {
    // A command must not create a second database in the place of one that a service has open.
    assertInPlace(runningService(home)?.files ?? []);
    return await openSqlite(sqlitePath(home), { threads, onMigration });
  }
  // Loaded only where it is used: a service on SQLite starts without it.
  const { openPostgres } = await import('./postgres.ts');
  return await openPostgres(url, onMigration);
}

/** The SQLite database of a home. */
export function sqlitePath(home: string): string {
  return join(home, 'sluice.db');
}
