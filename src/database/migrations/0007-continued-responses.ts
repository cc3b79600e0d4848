import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Adds the column for the position at which another replica continued a response. Existing rows get null. */
export async function addContinuedAfter(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { integer } = columnTypes(kind);
  await sql`
    alter table ledger add column continued_after ${integer}
    check (continued_after is null or continued_after >= 0)`.execute(database);
}
