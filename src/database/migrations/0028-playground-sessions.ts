import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Adds the session that created a playground key, whose end revokes the key. Existing keys expire within an hour. */
export async function addPlaygroundSessions(
  database: Transaction<Schema>,
  kind: DatabaseKind,
): Promise<void> {
  await sql`alter table keys add column session_id ${columnTypes(kind).text}`.execute(database);
  await sql`create index keys_session on keys (session_id) where session_id is not null`.execute(database);
}
