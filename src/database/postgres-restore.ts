import { DatabaseSync, type SQLOutputValue } from 'node:sqlite';
import { sql } from 'kysely';
import type { Secret } from '../support/secret.ts';
import { openDatabase, type Database } from './database.ts';
import { DatabaseError } from './errors.ts';
import { ensurePartitions } from './partitions.ts';
import type { Transaction } from './schema.ts';
import { tablesOf } from './sqlite-tables.ts';

/** Rows per statement. */
const ROWS = 500;

/** Tables that are empty in a new database. */
const USED = ['keys', 'users', 'ledger', 'audit'] as const;

/**
 * Fills a PostgreSQL database from a migrated SQLite database in one transaction. Rejects with a `DatabaseError`:
 * `in_use` if an instance uses the database, or `unwritable` if it has data and `overwrite` is false.
 */
export async function fillPostgres(path: string, url: Secret, overwrite: boolean): Promise<void> {
  await using database = await openDatabase({ home: '', url });
  using source = new DatabaseSync(path, { readOnly: true, readBigInts: true });
  await createPartitions(database, source);
  const tables = tablesOf(source);
  await database.kysely.transaction().execute(async (transaction) => {
    // Also blocks instances that are being started, until the transaction ends.
    await sql`lock table instances in access exclusive mode`.execute(transaction);
    await assertUnused(transaction, overwrite);
    await sql`alter table audit disable trigger audit_append_only`.execute(transaction);
    await sql`truncate ${sql.join(tables.map((table) => sql.table(table)))}`.execute(transaction);
    await sql`alter table audit enable trigger audit_append_only`.execute(transaction);
    for (const table of tables) await fill(transaction, source, table);
    await sql`
      select setval(pg_get_serial_sequence('instances', 'epoch'), greatest(
        (select coalesce(max(epoch), 1) from instances), (select coalesce(max(epoch), 1) from ledger),
        nextval(pg_get_serial_sequence('instances', 'epoch'))))`.execute(transaction);
  });
}

async function assertUnused(transaction: Transaction, overwrite: boolean): Promise<void> {
  const { rows } = await sql`
    select 1 from instances where live = 1
    and lease_until > extract(epoch from clock_timestamp()) * 1000`.execute(transaction);
  if (rows.length > 0) {
    throw new DatabaseError(
      'in_use',
      'A service is running on this PostgreSQL database. Stop all instances. If one was killed, wait until its lease expires (`ledger.leaseMs`).',
    );
  }
  if (overwrite) return;
  for (const table of USED) {
    const row = await transaction.selectFrom(table).select('id').limit(1).executeTakeFirst();
    if (row === undefined) continue;
    throw new DatabaseError(
      'unwritable',
      'The PostgreSQL database already has data. To replace it, pass --overwrite.',
    );
  }
}

async function fill(transaction: Transaction, source: DatabaseSync, table: string): Promise<void> {
  let rows: Record<string, SQLOutputValue>[] = [];
  const flush = async (): Promise<void> => {
    if (rows.length === 0) return;
    const json = JSON.stringify(rows, (_name, value: unknown) =>
      typeof value === 'bigint' ? value.toString() : value,
    );
    await sql`
      insert into ${sql.table(table)} overriding system value
      select * from json_populate_recordset(null::${sql.table(table)}, ${json}::json)`.execute(transaction);
    rows = [];
  };
  for (const row of source.prepare(`select * from ${table}`).iterate()) {
    rows.push(row);
    if (rows.length === ROWS) await flush();
  }
  await flush();
}

/** Creates the partitions of the ledger for each month of the backup. */
async function createPartitions(database: Database, source: DatabaseSync): Promise<void> {
  const months = source.prepare('select distinct substr(id, 1, 8) as start from ledger').all();
  // The first 32 bits of a UUIDv7 are its time in units of 65.536 seconds.
  const times = months.map(({ start }) => Number.parseInt(String(start), 16) * 65_536);
  const firsts = times.flatMap((time) => [monthStart(time), monthStart(time + 65_535)]);
  for (const first of new Set(firsts)) await ensurePartitions(database, first);
}

function monthStart(atMs: number): number {
  const date = new Date(atMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
}
