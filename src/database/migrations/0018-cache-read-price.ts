import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/**
 * Adds the column for the price of cached prompt tokens. Null: the price of other prompt tokens, as in existing rows and
 * in rows written by instances of the previous version, which may still be running.
 */
export async function addCacheReadPrice(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { integer } = columnTypes(kind);
  await sql`
    alter table ledger add column price_input_cache_read ${integer}
    check (price_input_cache_read >= 0)`.execute(database);
}
