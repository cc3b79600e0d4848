import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Adds the tags of a key. They give no access, so a change of them has no access revision. */
export async function addKeyTags(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text } = columnTypes(kind);
  await sql`alter table keys add column tags ${text}`.execute(database);
}
