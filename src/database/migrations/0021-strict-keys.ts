import { sql, type Transaction } from 'kysely';
import { ACCESS_REVISION, type Schema } from '../schema.ts';
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
  if (kind === 'postgres') {
    await sql`
      create trigger keys_access_strict after update of strict on keys
      for each row execute function raise_access_revision()`.execute(database);
    return;
  }
  const revision = sql`(select cast(value as integer) from settings where name = ${sql.lit(ACCESS_REVISION)})`;
  await sql`
    create trigger keys_access_strict after update of strict on keys begin
      update settings set value = cast(cast(value as integer) + 1 as text) where name = ${sql.lit(ACCESS_REVISION)};
      update keys set access_revision = ${revision} where id = new.id and ${revision} is not null;
    end`.execute(database);
}
