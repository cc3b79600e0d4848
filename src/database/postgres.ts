import { Socket } from 'node:net';
import {
  Kysely,
  PostgresDialect,
  type PostgresPool,
  type PostgresPoolClient,
  type PostgresQueryResult,
} from 'kysely';
import { Pool, types, type ClientConfig, type PoolClient, type QueryResultRow } from 'pg';
import type { Secret } from '../secret.ts';
import { asPostgresError, DatabaseError, type DatabaseFault } from './errors.ts';
import { isMigrated, migrate } from './migrations.ts';
import { ACCESS_REVISION, type Schema } from './schema.ts';

/** Bounds of one kind of connections, in milliseconds. 0: none. */
interface Bounds {
  connections: number;
  /** How long a statement may take. */
  statementMs: number;
  /** How long it may wait for a lock of others. */
  lockMs: number;
  /** Whether the server refuses what writes. */
  readOnly?: boolean;
}

/** What people and other programs wait for. */
const MAIN: Bounds = { connections: 10, statementMs: 10_000, lockMs: 5000 };
/** Two connections, so that the poll of who may do what does not stand behind the writing of when keys were used. */
const BACKGROUND: Bounds = { connections: 2, statementMs: 2000, lockMs: 100 };
/** What may take long has no connection of those that requests need. */
const REPORTS: Bounds = { connections: 4, statementMs: 10_000, lockMs: 5000, readOnly: true };
/** One migration may have much to rewrite, and another process's may have to be waited for. */
const MIGRATION: Bounds = { connections: 1, statementMs: 0, lockMs: 0 };

/** How long connecting may take, and waiting for a connection of the pool. */
const CONNECT_MS = 5000;
/** How long a connection is kept that nobody uses. */
const IDLE_MS = 60_000;
/** How long the server's own bound on a statement may be late before the connection is given up. */
const LATE_MS = 1000;
/** The type of 64-bit integers (`pg_type.oid`). */
const INT8: number = types.builtins.INT8;
/** How long sockets may take to say goodbye. */
const GOODBYE_MS = 1000;

/** The `Database` on a PostgreSQL server. Rejects with a `DatabaseError`. */
export async function openPostgres(url: Secret, onMigration?: (name: string) => void) {
  const name = nameOf(url);
  await using owned = new AsyncDisposableStack();
  const kysely = connect(url, MAIN, owned);
  if (!(await isMigrated(kysely, 'postgres', name))) {
    await using patient = new AsyncDisposableStack();
    await migrate(connect(url, MIGRATION, patient), 'postgres', name, onMigration);
  }
  const background = connect(url, BACKGROUND, owned);
  const reports = connect(url, REPORTS, owned);
  const kept = owned.move();
  return {
    place: { kind: 'postgres' as const, url },
    kysely,
    background,
    reports,
    accessRevision: async () => {
      const { value } = await background
        .selectFrom('settings')
        .select('value')
        .where('name', '=', ACCESS_REVISION)
        .executeTakeFirstOrThrow();
      return Number(value);
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/**
 * How every connection of ours is made: 64-bit integers come as numbers, and throw where they are none (money is
 * cast to text); a server that went away without a word is noticed. `sum` of integers is `numeric` on PostgreSQL
 * and comes as text unless it is cast.
 */
export function postgresOptions(url: Secret): ClientConfig {
  return {
    connectionString: url.reveal(),
    application_name: 'sluice',
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    types: {
      // Its type has a form for binary values too, which we ask for nowhere.
      getTypeParser: ((id: number, format?: 'text') =>
        id === INT8 ? toNumber : types.getTypeParser(id, format)) as typeof types.getTypeParser,
    },
  };
}

/** Which database it is, for people: never the user's name nor the password. */
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

function connect(url: Secret, bounds: Bounds, owned: AsyncDisposableStack): Kysely<Schema> {
  const sockets = new Set<Socket>();
  const pool = new Pool({
    ...postgresOptions(url),
    max: bounds.connections,
    idleTimeoutMillis: IDLE_MS,
    statement_timeout: bounds.statementMs,
    // A server that is stopped or cut off does not keep its own bounds.
    query_timeout: bounds.statementMs === 0 ? 0 : bounds.statementMs + LATE_MS,
    lock_timeout: bounds.lockMs,
    ...(bounds.readOnly && { verify: refuseWrites }),
    stream: () => {
      const socket = new Socket();
      sockets.add(socket);
      return socket.once('close', () => sockets.delete(socket));
    },
  });
  // A connection that breaks while nothing runs on it is taken out of the pool, and the next query tells. Without
  // listeners these events would end the process; the pool itself listens to idle clients only.
  pool.on('error', ignore);
  pool.on('connect', (client) => client.on('error', ignore));
  owned.defer(async () => {
    await pool.end();
    // A server that does not answer the goodbye must not keep the process alive.
    setTimeout(() => sockets.forEach((socket) => socket.destroy()), GOODBYE_MS).unref();
  });
  return new Kysely<Schema>({ dialect: new PostgresDialect({ pool: translating(pool, nameOf(url)) }) });
}

function ignore(): void {}

/** The pool hands a new connection out when this is done. */
function refuseWrites(client: PoolClient, done: (error?: Error) => void): void {
  client.query('set default_transaction_read_only = on', done);
}

/** Faults after which a new connection may fare better: the server is another one, or a standby has become one. */
const ANEW: ReadonlySet<DatabaseFault> = new Set<DatabaseFault>(['away', 'unwritable']);

/** The pool with errors that are `DatabaseError`s, and without connections that are of no use any more. */
function translating(pool: Pool, name: string): PostgresPool {
  return {
    options: pool.options,
    end: () => pool.end(),
    async connect() {
      let client: PoolClient;
      try {
        client = await pool.connect();
      } catch (error) {
        throw asPostgresError(error, name);
      }
      let lost = false;
      const query = async <R extends QueryResultRow>(sql: string, parameters: readonly unknown[] = []) => {
        try {
          return (await client.query<R>(sql, [...parameters])) as PostgresQueryResult<R>;
        } catch (error) {
          const translated = asPostgresError(error, name);
          lost ||= translated instanceof DatabaseError && ANEW.has(translated.fault);
          throw translated;
        }
      };
      return {
        // Kysely's type has a form for cursors too, which it uses only where it was given them.
        query: query as PostgresPoolClient['query'],
        release: (destroy = false) => client.release(destroy || lost),
      };
    },
  };
}
