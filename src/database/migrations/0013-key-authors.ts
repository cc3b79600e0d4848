import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Adds who created a key. Playground keys that were made permanent expire an hour after they were created again. */
export async function addKeyAuthors(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text } = columnTypes(kind);
  await sql`alter table keys add column created_by ${text}`.execute(database);
  await sql`create index keys_author on keys (created_by) where purpose = 'playground'`.execute(database);
  await sql`
    update keys set expires_at = created_at + 3600000
    where purpose = 'playground' and (expires_at is null or expires_at > created_at + 3600000)`.execute(
    database,
  );
}
