import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { CACHE_READ_PRICE_CHECK } from './0018-cache-read-price.ts';
import type { DatabaseKind } from './column-types.ts';

/** Marks the constraint as valid for all rows, without blocking those who read and write the ledger. */
export async function checkCacheReadPrice(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  if (kind === 'sqlite') return;
  await sql`alter table ledger validate constraint ${sql.id(CACHE_READ_PRICE_CHECK)}`.execute(database);
}
