import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/**
 * Adds the columns for prompt tokens that were computed again. Existing rows have none, and so do rows written by
 * instances of the previous version, which may still be running.
 */
export async function addCacheMisses(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { integer } = columnTypes(kind);
  await sql`alter table ledger add column cache_miss text`.execute(database);
  await sql`alter table ledger add column cache_miss_tokens ${integer} not null default 0`.execute(database);
  await sql`alter table ledger add column cache_miss_after_ms ${integer}`.execute(database);
  await sql`alter table usage_days add column cache_miss_tokens ${integer} not null default 0`.execute(
    database,
  );
}
