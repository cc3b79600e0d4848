import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { createAccessTrigger } from './access-trigger.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/**
 * Adds whether requests of a key are strict. Existing keys are not, nor are keys created by instances of the previous
 * version, which may still be running. A change of the column has an access revision, like other changes of keys.
 */
export async function addStrictKeys(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { small } = columnTypes(kind);
  await sql`
    alter table keys add column strict ${small} not null default 0 check (strict in (0, 1))`.execute(
    database,
  );
  await createAccessTrigger(database, kind, 'keys_access_strict', 'keys', ['strict']);
}
