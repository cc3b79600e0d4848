import { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import {
  Kysely,
  PostgresDialect,
  sql,
  type PostgresPool,
  type PostgresPoolClient,
  type PostgresQueryResult,
} from 'kysely';
import {
  DatabaseError as ServerError,
  Pool,
  types,
  type ClientConfig,
  type PoolClient,
  type QueryResultRow,
} from 'pg';
import type { Secret } from '../support/secret.ts';
import { asPostgresError, DatabaseError, type DatabaseFault } from './errors.ts';
import { isMigrated, migrate, type MigrationOptions, olderSchema } from './migrations.ts';
import { ACCESS_REVISION, type Schema } from './schema.ts';

/** Limits of a connection pool. Times are in milliseconds; 0 means unlimited. */
interface PoolBounds {
  connections: number;
  /** The server's timeout of a statement. The client waits `LATE_MS` longer, for a connection and the statement. */
  statementMs: number;
  /** The lock timeout. */
  lockMs: number;
  /** Whether the connections are read-only. */
  readOnly?: boolean;
}

/** Used by requests. */
const MAIN: PoolBounds = { connections: 10, statementMs: 9000, lockMs: 5000 };
const BACKGROUND: PoolBounds = { connections: 1, statementMs: 2000, lockMs: 100 };
/** A separate connection, so that the polls on which the validity of keys depends wait for nothing else. */
const POLLING: PoolBounds = { connections: 1, statementMs: 2000, lockMs: 100 };
/** Separate connections, so that long queries do not block requests. */
const REPORTS: PoolBounds = { connections: 4, statementMs: 9000, lockMs: 5000, readOnly: true };
/** Without a statement timeout, because a migration may rewrite large tables. */
const MIGRATION: PoolBounds = { connections: 1, statementMs: 0, lockMs: 500 };
/** Pause before migrations are tried again, in milliseconds. */
const MIGRATION_PAUSE_MS = 1000;
/** SQLSTATEs of a lock that was not free in time, and of a deadlock. */
const LOCK_CODES: ReadonlySet<string | undefined> = new Set(['55P03', '40P01']);

/** Timeout for connecting, and for waiting for a connection of the pool. */
const CONNECT_MS = 5000;
/** How long an idle connection is kept. */
const IDLE_MS = 60_000;
/**
 * How much longer the client waits than the server's own statement timeout, because a paused or unreachable server does
 * not apply it.
 */
export const LATE_MS = 1000;
/** ID of the type of 64-bit integers (`pg_type.oid`). */
const INT8: number = types.builtins.INT8;
/** How long sockets may take to close before they are destroyed. */
const CLOSE_MS = 1000;

/** Opens a `Database` on PostgreSQL. Rejects with a `DatabaseError`, or with an `AbortError` if `signal` stopped it. */
export async function openPostgres(url: Secret, migration: MigrationOptions = {}) {
  const name = nameOf(url);
  await using owned = new AsyncDisposableStack();
  const kysely = connect(url, MAIN, owned);
  if (!(await isMigrated(kysely, 'postgres', name))) {
    if (migration.migrates === false) throw olderSchema(name);
    await migrateBetweenOthers(url, name, migration);
  }
  const background = connect(url, BACKGROUND, owned);
  const polling = connect(url, POLLING, owned);
  const reports = connect(url, REPORTS, owned);
  const resources = owned.move();
  return {
    location: { kind: 'postgres' as const, url },
    kysely,
    background,
    reports,
    accessRevision: async () => {
      const { value } = await polling
        .selectFrom('settings')
        .select('value')
        .where('name', '=', ACCESS_REVISION)
        .executeTakeFirstOrThrow();
      return Number(value);
    },
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

/**
 * Migrates the tables. Does not wait long for a lock that a backup or report holds, because running instances would wait
 * behind the migration: rolls back, and tries again until it has every lock. Also waits for other processes that migrate.
 */
async function migrateBetweenOthers(
  url: Secret,
  name: string,
  { onMigration, onMigrationWait, signal }: MigrationOptions,
): Promise<void> {
  await using owned = new AsyncDisposableStack();
  const kysely = connect(url, MIGRATION, owned);
  const reported = new Set<string>();
  const once = (text: string, report?: (text: string) => void) => {
    if (!reported.has(text)) report?.(text);
    reported.add(text);
  };
  for (;;) {
    try {
      return await migrate(kysely, 'postgres', name, (migration) => once(migration, onMigration));
    } catch (error) {
      const { cause } = error as Error;
      if (!(cause instanceof ServerError && LOCK_CODES.has(cause.code))) throw error;
      once(await oldestLockHolder(kysely), onMigrationWait);
      await pause(MIGRATION_PAUSE_MS, undefined, { signal });
    }
  }
}

/** Returns the name and process ID of the client whose transaction has held locks for the longest time. */
async function oldestLockHolder(kysely: Kysely<Schema>): Promise<string> {
  const { rows } = await sql<{ program: string | null; pid: number }>`
    select application_name as program, pid from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()
      and exists (select 1 from pg_locks where granted and pg_locks.pid = pg_stat_activity.pid and database = datid)
    order by xact_start limit 1`.execute(kysely);
  const [holder] = rows;
  return holder ? `${holder.program || 'client'} (PostgreSQL process ${holder.pid})` : 'another transaction';
}

/**
 * Opens read-only connections without migrating the database. Rejects with a `DatabaseError`, for example if the
 * database is new or belongs to an earlier version of Sluice.
 */
export async function openPostgresReader(
  url: Secret,
): Promise<{ reports: Kysely<Schema> } & AsyncDisposable> {
  const name = nameOf(url);
  await using owned = new AsyncDisposableStack();
  const reports = connect(url, REPORTS, owned);
  if (!(await isMigrated(reports, 'postgres', name))) {
    throw new DatabaseError(
      'failed',
      `The database ${name} is new, or belongs to an earlier version of Sluice. Use that version to back it up, or migrate it first.`,
    );
  }
  const resources = owned.move();
  return { reports, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

/**
 * Returns the options of every connection. 64-bit integers are read as numbers; a value that is not a safe integer
 * throws, so money is cast to text. On PostgreSQL, `sum` of integers has the type `numeric`, which is read as text
 * unless it is cast. TCP keep-alive detects that a server has disappeared.
 */
export function postgresOptions(url: Secret): ClientConfig {
  return {
    connectionString: url.reveal(),
    application_name: 'sluice',
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: {
      // The type in `pg` also covers the binary format, which is never requested.
      getTypeParser: ((id: number, format?: 'text') =>
        id === INT8 ? toNumber : types.getTypeParser(id, format)) as typeof types.getTypeParser,
    },
  };
}

/** Returns the host and name of a database for messages, without user name and password. */
export function nameOf(url: Secret): string {
  const { hostname, port, pathname, searchParams } = new URL(url.reveal());
  const host = hostname || searchParams.get('host') || 'localhost';
  const database = decodeURIComponent(pathname.slice(1)) || searchParams.get('dbname');
  return `${database ? `${database} ` : ''}on ${host}:${port || '5432'}`;
}

function toNumber(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value))
    throw new RangeError(`${text} is too large for a number: cast it to text.`);
  return value;
}

function connect(url: Secret, bounds: PoolBounds, owned: AsyncDisposableStack): Kysely<Schema> {
  const sockets = new Set<Socket>();
  const longestMs = bounds.statementMs === 0 ? 0 : bounds.statementMs + LATE_MS;
  const connectMs = Math.min(CONNECT_MS, longestMs || CONNECT_MS);
  const pool = new Pool({
    ...postgresOptions(url),
    connectionTimeoutMillis: connectMs,
    // Only for `verify`, because `withDatabaseErrors` sets it for each statement.
    query_timeout: longestMs === 0 ? 0 : connectMs,
    max: bounds.connections,
    idleTimeoutMillis: IDLE_MS,
    statement_timeout: bounds.statementMs,
    lock_timeout: bounds.lockMs,
    ...(bounds.readOnly && { verify: refuseWrites }),
    stream: () => {
      const socket = new Socket();
      sockets.add(socket);
      return socket.once('close', () => sockets.delete(socket));
    },
  });
  // An `error` event without a listener would end the process, and the pool itself only listens to idle clients. The
  // pool removes a broken connection, and the query that uses it rejects.
  pool.on('error', ignore);
  pool.on('connect', (client) => client.on('error', ignore));
  owned.defer(async () => {
    await pool.end();
    // A server that does not respond must not keep the process alive.
    setTimeout(() => sockets.forEach((socket) => socket.destroy()), CLOSE_MS).unref();
  });
  return new Kysely<Schema>({
    dialect: new PostgresDialect({ pool: withDatabaseErrors(pool, nameOf(url), longestMs) }),
  });
}

function ignore(): void {}

/** Makes a connection read-only. The pool runs this `verify` function once on each new connection. */
function refuseWrites(client: PoolClient, done: (error?: Error) => void): void {
  client.query('set default_transaction_read_only = on', done);
}

/** Faults after which the connection is replaced, because the server may have been replaced or promoted. */
const RECONNECT_FAULTS: ReadonlySet<DatabaseFault> = new Set<DatabaseFault>(['unavailable', 'unwritable']);

/**
 * Wraps a pool to throw `DatabaseError`s and to discard unusable connections. A statement takes at most `longestMs`; the
 * wait for the connection counts as part of the first one. 0: unlimited.
 */
function withDatabaseErrors(pool: Pool, name: string, longestMs: number): PostgresPool {
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      let startedAtMs: number | null = performance.now();
      let client: PoolClient;
      try {
        client = await pool.connect();
      } catch (error) {
        throw asPostgresError(error, name);
      }
      let lost: DatabaseError | null = null;
      const query = async <R extends QueryResultRow>(text: string, parameters: readonly unknown[] = []) => {
        // A rollback would wait for the statement that did not respond.
        if (lost !== null) throw lost;
        const waitedMs = startedAtMs === null ? 0 : performance.now() - startedAtMs;
        startedAtMs = null;
        const timeoutMs = longestMs === 0 ? 0 : Math.max(longestMs - waitedMs, 1);
        try {
          const config = { text, values: [...parameters], query_timeout: timeoutMs };
          return (await client.query<R>(config)) as PostgresQueryResult<R>;
        } catch (error) {
          const translated = asPostgresError(error, name);
          if (translated instanceof DatabaseError && RECONNECT_FAULTS.has(translated.fault))
            lost = translated;
          throw translated;
        }
      };
      return {
        // Kysely's type also covers cursors, which are not used.
        query: query as PostgresPoolClient['query'],
        release: (destroy = false) => client.release(destroy || lost !== null),
      };
    },
  };
}
