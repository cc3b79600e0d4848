import { sql, type Transaction } from 'kysely';
import { ACCESS_REVISION, type Schema } from '../schema.ts';
import type { DatabaseKind } from './column-types.ts';

/** Creates a trigger that gives a row a new access revision when one of these columns changes. */
export async function createAccessTrigger(
  database: Transaction<Schema>,
  kind: DatabaseKind,
  name: string,
  table: 'accounts' | 'keys',
  columns: readonly string[],
): Promise<void> {
  const update = sql`update of ${sql.join(columns.map((column) => sql.id(column)))} on ${sql.id(table)}`;
  if (kind === 'postgres') {
    await sql`
      create trigger ${sql.id(name)} after ${update}
      for each row execute function raise_access_revision()`.execute(database);
    return;
  }
  const revision = sql`(select cast(value as integer) from settings where name = ${sql.lit(ACCESS_REVISION)})`;
  await sql`
    create trigger ${sql.id(name)} after ${update} begin
      update settings set value = cast(cast(value as integer) + 1 as text) where name = ${sql.lit(ACCESS_REVISION)};
      update ${sql.id(table)} set access_revision = ${revision} where id = new.id and ${revision} is not null;
    end`.execute(database);
}
