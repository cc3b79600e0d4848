import { sql, type Kysely } from 'kysely';
import type { Database } from './database.ts';
import { DatabaseError } from './errors.ts';
import type { Schema } from './schema.ts';

/** How long dropping a partition may block the ledger's writers, in milliseconds. */
const DROP_WAIT_MS = 200;

/** ID of the advisory lock that an instance holds while it creates partitions. */
const LOCK = 0x51_01_cf;

/**
 * Returns the smallest UUIDv7 of a row that is created at `atMs` (Unix milliseconds) or later. The rows of the ledger and
 * of the audit log are ordered by ID, and thus by time.
 */
export function firstIdAt(atMs: number): string {
  const time = Math.max(0, Math.floor(atMs)).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
}

/**
 * Creates missing partitions of the ledger for the UTC month of `nowMs` and the next two. A row cannot be written
 * without its partition, so call this at startup and hourly. Does nothing on SQLite. Rejects with a
 * `DatabaseError`.
 */
export async function ensurePartitions(database: Database, nowMs: number): Promise<void> {
  if (database.location.kind === 'sqlite') return;
  if ((await missing(database.kysely, nowMs)).length === 0) return;
  await database.kysely.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock(${sql.lit(LOCK)})`.execute(transaction);
    for (const { name, fromMs, toMs } of await missing(transaction, nowMs)) {
      const table = sql.table(name);
      // `create table … partition of` would wait for every transaction that reads the ledger, and block all
      // writers; attaching an existing table does not.
      await sql`create table ${table} (like ledger including all)`.execute(transaction);
      await sql`
        alter table ledger attach partition ${table}
        for values from (${sql.lit(firstIdAt(fromMs))}) to (${sql.lit(firstIdAt(toMs))})`.execute(
        transaction,
      );
    }
  });
}

/**
 * Drops the partitions of the ledger whose rows are all older than `beforeMs` (Unix milliseconds). Returns the number
 * of dropped partitions. Skips a partition that is being read, because writers would have to wait for the reader. Does
 * nothing on SQLite. Rejects with a `DatabaseError`.
 */
export async function dropPartitions(database: Database, beforeMs: number): Promise<number> {
  if (database.location.kind === 'sqlite') return 0;
  const end = firstIdAt(beforeMs);
  let dropped = 0;
  for (const { name, to } of await partitions(database.kysely)) {
    if (to <= end && (await drop(database, name))) dropped += 1;
  }
  return dropped;
}

/**
 * Returns whether the partition was dropped. Does not use `detach … concurrently`, because the ledger accepts no rows
 * after an interrupted `detach`.
 */
async function drop(database: Database, name: string): Promise<boolean> {
  try {
    await database.kysely.transaction().execute(async (transaction) => {
      await sql.raw(`set local lock_timeout = ${DROP_WAIT_MS}`).execute(transaction);
      await sql`drop table if exists ${sql.table(name)}`.execute(transaction);
    });
    return true;
  } catch (error) {
    if (error instanceof DatabaseError && error.fault === 'busy') return false;
    throw error;
  }
}

async function missing(kysely: Kysely<Schema>, nowMs: number): Promise<Month[]> {
  const existing = new Set((await partitions(kysely)).map(({ name }) => name));
  return [0, 1, 2].map((ahead) => monthOf(nowMs, ahead)).filter(({ name }) => !existing.has(name));
}

/** Returns the existing partitions with their end IDs. */
async function partitions(kysely: Kysely<Schema>): Promise<{ name: string; to: string }[]> {
  const { rows } = await sql<{ name: string; bound: string }>`
    select relname as name, pg_get_expr(relpartbound, oid) as bound
    from pg_class where oid in (select inhrelid from pg_inherits where inhparent = 'ledger'::regclass)
    order by relname`.execute(kysely);
  // Partitions without an end, such as a default partition, were not created by this program.
  return rows.flatMap(({ name, bound }) => {
    const to = /TO \('([^']+)'\)/.exec(bound)?.[1];
    return to === undefined ? [] : [{ name, to }];
  });
}

interface Month {
  /** The name of its partition. */
  name: string;
  fromMs: number;
  toMs: number;
}

/** Returns the UTC month that is `ahead` months after the month of `atMs`. */
function monthOf(atMs: number, ahead: number): Month {
  const date = new Date(atMs);
  const from = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + ahead));
  const toMs = Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1);
  return { name: `ledger_${from.toISOString().slice(0, 7).replace('-', '_')}`, fromMs: from.getTime(), toMs };
}
