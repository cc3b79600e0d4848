import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { createAccessTrigger } from './access-trigger.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Adds the limits of an account itself. A change of them has an access revision, like other changes of accounts. */
export async function addAccountLimits(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  await sql`alter table accounts add column limits ${columnTypes(kind).text}`.execute(database);
  await createAccessTrigger(database, kind, 'accounts_access_limits', 'accounts', ['limits']);
}
