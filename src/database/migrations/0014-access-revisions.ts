import { sql, type Transaction } from 'kysely';
import { ACCESS_RELOAD, ACCESS_REVISION, type Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/**
 * Adds the access revision of each key and account, so that a service reads only those that changed. A deleted row has
 * no revision, so its deletion makes services read all keys. Every change of a row gets its own revision.
 */
export async function addAccessRevisions(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { integer } = columnTypes(kind);
  for (const table of Object.keys(ACCESS_COLUMNS)) {
    await sql`
      alter table ${sql.table(table)} add column access_revision ${integer} not null default 0`.execute(
      database,
    );
  }
  await sql`create index keys_revision on keys (access_revision, id)`.execute(database);
  await sql`create index accounts_revision on accounts (access_revision, id)`.execute(database);
  await sql`create index keys_usable on keys (account_id, expires_at) where revoked_at is null`.execute(
    database,
  );
  await database.insertInto('settings').values({ name: ACCESS_RELOAD, value: '0' }).execute();
  await (kind === 'postgres' ? triggersOfPostgres : triggersOfSqlite)(database);
}

/** The columns that affect access rights, or are shown together with them. */
const ACCESS_COLUMNS = {
  accounts: ['id', 'name', 'status', 'plan'],
  keys: ['account_id', 'kind', 'name', 'hash', 'expires_at', 'revoked_at', 'allowed_models', 'limits'],
};

/** Whether a deleted key still worked. Deleting other keys changes no access. */
const USABLE = {
  sqlite: `old.revoked_at is null
    and (old.expires_at is null or old.expires_at > cast(unixepoch('subsec') * 1000 as integer))`,
  postgres: `old.revoked_at is null
    and (old.expires_at is null or old.expires_at > extract(epoch from clock_timestamp()) * 1000)`,
};

/** The triggers do nothing without the revision, so that a backup can be restored row by row with its revisions. */
async function triggersOfSqlite(database: Transaction<Schema>): Promise<void> {
  const revision = sql`(select cast(value as integer) from settings where name = ${sql.lit(ACCESS_REVISION)})`;
  const raise = sql`
    update settings set value = cast(cast(value as integer) + 1 as text) where name = ${sql.lit(ACCESS_REVISION)}`;
  for (const [table, columns] of Object.entries(ACCESS_COLUMNS)) {
    for (const event of ['insert', `update of ${columns.join(', ')}`]) {
      const name = `${table}_access_${event.split(' ')[0]}`;
      await sql`drop trigger ${sql.id(name)}`.execute(database);
      await sql`
        create trigger ${sql.id(name)} after ${sql.raw(event)} on ${sql.table(table)} begin
          ${raise};
          update ${sql.table(table)} set access_revision = ${revision}
          where id = new.id and ${revision} is not null;
        end`.execute(database);
    }
    await sql`drop trigger ${sql.id(`${table}_access_delete`)}`.execute(database);
    await sql`
      create trigger ${sql.id(`${table}_access_delete`)} after delete on ${sql.table(table)}
      ${sql.raw(table === 'keys' ? `when ${USABLE.sqlite}` : '')} begin
        ${raise};
        update settings set value = cast(${revision} as text)
        where name = ${sql.lit(ACCESS_RELOAD)} and ${revision} is not null;
      end`.execute(database);
  }
}

async function triggersOfPostgres(database: Transaction<Schema>): Promise<void> {
  for (const table of Object.keys(ACCESS_COLUMNS)) {
    await sql`drop trigger ${sql.id(`${table}_access`)} on ${sql.table(table)}`.execute(database);
  }
  await sql`drop function raise_access_revision()`.execute(database);
  // Row triggers run after the statement has locked all of its rows, so that no transaction waits for a row while it
  // holds the lock of the revision.
  await sql`
    create function raise_access_revision() returns trigger language plpgsql as $$
    declare revision bigint;
    begin
      update settings set value = value::bigint + 1 where name = ${sql.lit(ACCESS_REVISION)}
      returning value::bigint into revision;
      if revision is null then return null; end if;
      if tg_op in ('DELETE', 'TRUNCATE') then
        update settings set value = revision::text where name = ${sql.lit(ACCESS_RELOAD)};
      else
        execute format('update %I set access_revision = $1 where id = $2', tg_table_name) using revision, new.id;
      end if;
      return null;
    end $$`.execute(database);
  for (const [table, columns] of Object.entries(ACCESS_COLUMNS)) {
    const call = sql`execute function raise_access_revision()`;
    await sql`
      create trigger ${sql.id(`${table}_access`)}
      after insert or update of ${sql.raw(columns.join(', '))} on ${sql.table(table)} for each row ${call}`.execute(
      database,
    );
    await sql`
      create trigger ${sql.id(`${table}_access_delete`)} after delete on ${sql.table(table)} for each row
      ${sql.raw(table === 'keys' ? `when (${USABLE.postgres})` : '')} ${call}`.execute(database);
    await sql`
      create trigger ${sql.id(`${table}_access_truncate`)} after truncate on ${sql.table(table)} for each statement
      ${call}`.execute(database);
  }
}
