import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { createAccessTrigger } from './access-trigger.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/**
 * Adds the secret that a key had before it was rotated, and until when it works. Instances of the previous version, which
 * may still be running, only accept the current secret.
 */
export async function addPreviousSecrets(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text, integer } = columnTypes(kind);
  for (const [name, type] of [
    ['previous_hash', text],
    ['previous_last_four', text],
    ['previous_expires_at', integer],
    ['previous_used_at', integer],
  ] as const)
    await sql`alter table keys add column ${sql.id(name)} ${type}`.execute(database);
  await sql`create unique index keys_previous_hash on keys (previous_hash) where previous_hash is not null`.execute(
    database,
  );
  await createAccessTrigger(database, kind, 'keys_access_previous', 'keys', [
    'previous_hash',
    'previous_expires_at',
  ]);
}
