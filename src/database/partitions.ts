import { sql, type Kysely } from 'kysely';
import type { Database } from './database.ts';
import { DatabaseError } from './errors.ts';
import type { Schema } from './schema.ts';

/** How long the dropping of a partition may hold up the ledger's writers, in milliseconds. */
const DROP_WAIT_MS = 200;

/** Held by the copy that makes partitions. */
const LOCK = 0x51_01_cf;

/**
 * The smallest id, as a UUIDv7, of a request that came at `atMs` (Unix milliseconds) or later. Ids and so the rows
 * of the ledger are in the order of time.
 */
export function firstIdAt(atMs: number): string {
  const time = Math.max(0, Math.floor(atMs)).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000`;
}

/**
 * Makes the ledger's partitions of the UTC month of `nowMs` and of the next two, where they are missing; without
 * its partition a row cannot be written. To be called at the start and every day. Nothing to do on SQLite. Rejects
 * with a `DatabaseError`.
 */
export async function ensurePartitions(database: Database, nowMs: number): Promise<void> {
  if (database.place.kind === 'sqlite') return;
  if ((await missing(database.kysely, nowMs)).length === 0) return;
  await database.kysely.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock(${sql.lit(LOCK)})`.execute(transaction);
    for (const { name, fromMs, toMs } of await missing(transaction, nowMs)) {
      const table = sql.table(name);
      // `create table … partition of` would wait for every transaction that reads the ledger, and all writers behind
      // it; attaching a table that is made beforehand waits for none.
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
 * Drops the ledger's partitions whose every row is older than `beforeMs` (Unix milliseconds). One that is being read
 * is left for the next time, since everything that is written would have to wait behind it. Resolves with how many
 * were dropped; nothing to do on SQLite. Rejects with a `DatabaseError`.
 */
export async function dropPartitions(database: Database, beforeMs: number): Promise<number> {
  if (database.place.kind === 'sqlite') return 0;
  const end = firstIdAt(beforeMs);
  let dropped = 0;
  for (const { name, to } of await partitions(database.kysely)) {
    if (to <= end && (await drop(database, name))) dropped += 1;
  }
  return dropped;
}

/** Whether it is gone now. Not by `detach … concurrently`: cut short, that leaves a ledger that takes no rows. */
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

/** The partitions there are, each with the id at which it ends. */
async function partitions(kysely: Kysely<Schema>): Promise<{ name: string; to: string }[]> {
  const { rows } = await sql<{ name: string; bound: string }>`
    select relname as name, pg_get_expr(relpartbound, oid) as bound
    from pg_class where oid in (select inhrelid from pg_inherits where inhparent = 'ledger'::regclass)
    order by relname`.execute(kysely);
  // One without an end, such as a default partition, is none that we made.
  return rows.flatMap(({ name, bound }) => {
    const to = /TO \('([^']+)'\)/.exec(bound)?.[1];
    return to === undefined ? [] : [{ name, to }];
  });
}

interface Month {
  /** Of its partition. */
  name: string;
  fromMs: number;
  toMs: number;
}

/** The UTC month so many months after that of `atMs`. */
function monthOf(atMs: number, ahead: number): Month {
  const date = new Date(atMs);
  const from = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + ahead));
  const toMs = Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1);
  return { name: `ledger_${from.toISOString().slice(0, 7).replace('-', '_')}`, fromMs: from.getTime(), toMs };
}
