import { sql, type Transaction } from 'kysely';
import { ACCESS_REVISION, type Schema } from '../schema.ts';
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
  if (kind === 'postgres') {
    await sql`
      create trigger keys_access_previous after update of previous_hash, previous_expires_at on keys
      for each row execute function raise_access_revision()`.execute(database);
    return;
  }
  const revision = sql`(select cast(value as integer) from settings where name = ${sql.lit(ACCESS_REVISION)})`;
  await sql`
    create trigger keys_access_previous after update of previous_hash, previous_expires_at on keys begin
      update settings set value = cast(cast(value as integer) + 1 as text) where name = ${sql.lit(ACCESS_REVISION)};
      update keys set access_revision = ${revision} where id = new.id and ${revision} is not null;
    end`.execute(database);
}
