import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** The name that PostgreSQL gives the constraint by default. */
export const CACHE_READ_PRICE_CHECK = 'ledger_price_input_cache_read_check';

/**
 * Adds the column for the price of cached prompt tokens. Null: the price of other prompt tokens, as in existing rows and
 * in rows written by instances of the previous version, which may still be running.
 */
export async function addCacheReadPrice(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { integer } = columnTypes(kind);
  const check = sql`check (price_input_cache_read >= 0)`;
  if (kind === 'sqlite') {
    await sql`alter table ledger add column price_input_cache_read ${integer} ${check}`.execute(database);
    return;
  }
  // Checking the existing rows would lock the ledger for as long as it takes to read them.
  await sql`
    alter table ledger add column price_input_cache_read ${integer},
    add constraint ${sql.id(CACHE_READ_PRICE_CHECK)} ${check} not valid`.execute(database);
}
