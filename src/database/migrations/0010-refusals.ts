import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Adds the counts of refused requests. */
export async function createRefusals(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text, integer, strictByKey } = columnTypes(kind);
  await sql`
    create table refusals (
      minute ${integer} not null,
      account_id ${text} not null,
      key_id ${text} not null,
      code ${text} not null,
      param ${text} not null,
      count ${integer} not null check (count > 0),
      last_at ${integer} not null,
      message ${text} not null,
      primary key (minute, account_id, key_id, code, param)
    ) ${strictByKey}`.execute(database);
}
