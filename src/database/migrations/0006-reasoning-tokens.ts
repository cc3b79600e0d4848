import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/**
 * Adds a column for reasoning tokens to requests and to daily usage. Existing rows get the default of 0, and so do rows
 * written by instances of the previous version, which may still be running.
 */
export async function addReasoningTokens(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { integer } = columnTypes(kind);
  await sql`
    alter table ledger add column reasoning_tokens ${integer} not null default 0
    check (reasoning_tokens >= 0)`.execute(database);
  await sql`alter table usage_days add column reasoning_tokens ${integer} not null default 0`.execute(
    database,
  );
}
