import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';

/** Adds an index with all that the report of refused requests adds up, in the order in which it does. */
export async function indexRefusalKinds(database: Transaction<Schema>): Promise<void> {
  await sql`
    create index refusals_kinds on refusals (account_id, key_id, code, param, minute, count, last_at)`.execute(
    database,
  );
}
