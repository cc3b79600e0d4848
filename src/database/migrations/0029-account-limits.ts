import { sql, type Transaction } from 'kysely';
import { ACCESS_REVISION, type Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Adds the limits of an account itself. A change of them has an access revision, like other changes of accounts. */
export async function addAccountLimits(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  await sql`alter table accounts add column limits ${columnTypes(kind).text}`.execute(database);
  if (kind === 'postgres') {
    await sql`
      create trigger accounts_access_limits after update of limits on accounts
      for each row execute function raise_access_revision()`.execute(database);
    return;
  }
  const revision = sql`(select cast(value as integer) from settings where name = ${sql.lit(ACCESS_REVISION)})`;
  await sql`
    create trigger accounts_access_limits after update of limits on accounts begin
      update settings set value = cast(cast(value as integer) + 1 as text) where name = ${sql.lit(ACCESS_REVISION)};
      update accounts set access_revision = ${revision} where id = new.id and ${revision} is not null;
    end`.execute(database);
}
