import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';

/**
 * Adds the column for what the model was given. It is null in existing rows, and in rows written by instances of the
 * previous version, which may still be running.
 */
export async function addModelInput(database: Transaction<Schema>): Promise<void> {
  await sql`alter table ledger add column model_input text`.execute(database);
}
