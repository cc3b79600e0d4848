import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';

/** Renames the error code of requests whose client disconnected. */
export async function renameClientDisconnected(database: Transaction<Schema>): Promise<void> {
  await sql`
    update ledger set error_code = 'client_disconnected' where error_code = 'hung_up'`.execute(database);
}
