import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';

/** Adds indexes for the filters of the audit log. */
export async function addAuditIndexes(database: Transaction<Schema>): Promise<void> {
  for (const column of ['actor', 'action', 'subject']) {
    await sql`create index ${sql.id(`audit_${column}`)} on audit (${sql.ref(column)}, id)`.execute(database);
  }
}
