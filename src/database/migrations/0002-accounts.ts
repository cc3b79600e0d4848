import { sql, type Transaction } from 'kysely';
import { ACCESS_REVISION, type Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Adds plans, users, key restrictions and the audit log. */
export async function createAccounts(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text, integer, strict, strictByKey } = columnTypes(kind);
  // Created by the library that ran the first migration in early versions.
  await sql`drop table if exists migrations_lock`.execute(database);
  await sql`alter table accounts add column plan ${text}`.execute(database);
  await sql`alter table keys add column allowed_models ${text}`.execute(database);
  await sql`alter table keys add column limits ${text}`.execute(database);
  // Lists are paged by creation time.
  await sql`create index accounts_created on accounts (created_at, id)`.execute(database);
  await sql`create index keys_created on keys (created_at, id)`.execute(database);
  await sql`create index keys_account on keys (account_id, created_at, id)`.execute(database);
  await sql`
    create table people (
      id ${text} not null primary key,
      name ${text} not null,
      email ${text} not null unique,
      created_at ${integer} not null
    ) ${strict}`.execute(database);
  await sql`
    create table memberships (
      account_id ${text} not null references accounts (id),
      person_id ${text} not null references people (id) on delete cascade,
      role ${text} not null check (role in ('owner', 'member')),
      created_at ${integer} not null,
      primary key (account_id, person_id)
    ) ${strictByKey}`.execute(database);
  await sql`create index memberships_person on memberships (person_id)`.execute(database);
  await sql`
    create table audit (
      id ${text} not null primary key,
      at ${integer} not null,
      actor ${text} not null,
      ip ${text},
      action ${text} not null,
      subject ${text} not null,
      account_id ${text},
      detail ${text} not null
    ) ${strictByKey}`.execute(database);
  await sql`create index audit_account on audit (account_id, id)`.execute(database);
  await database.insertInto('settings').values({ name: ACCESS_REVISION, value: '1' }).execute();
  await (kind === 'postgres' ? triggersOfPostgres : triggersOfSqlite)(database);
}

/**
 * Columns whose changes increase the access revision: they affect access rights, or are shown together with them. The
 * last use of a key is excluded.
 */
const ACCESS_COLUMNS = {
  accounts: ['id', 'name', 'status', 'plan'],
  keys: ['account_id', 'kind', 'name', 'hash', 'expires_at', 'revoked_at', 'allowed_models', 'limits'],
};

async function triggersOfSqlite(database: Transaction<Schema>): Promise<void> {
  for (const [table, columns] of Object.entries(ACCESS_COLUMNS)) {
    for (const event of ['insert', 'delete', `update of ${columns.join(', ')}`]) {
      const name = `${table}_access_${event.split(' ')[0]}`;
      await sql`
        create trigger ${sql.id(name)} after ${sql.raw(event)} on ${sql.table(table)} begin
          update settings set value = cast(cast(value as integer) + 1 as text)
          where name = ${sql.lit(ACCESS_REVISION)};
        end`.execute(database);
    }
  }
  for (const event of ['update', 'delete']) {
    await sql`
      create trigger ${sql.id(`audit_no_${event}`)} before ${sql.raw(event)} on audit begin
        select raise(abort, 'the audit log is append-only');
      end`.execute(database);
  }
}

/**
 * The revision is a row, not a sequence: a sequence increases before the commit, so a reader could pair the new
 * number with old data.
 */
async function triggersOfPostgres(database: Transaction<Schema>): Promise<void> {
  await sql`
    create function raise_access_revision() returns trigger language plpgsql as $$
    begin
      update settings set value = value::bigint + 1 where name = ${sql.lit(ACCESS_REVISION)};
      return null;
    end $$`.execute(database);
  for (const [table, columns] of Object.entries(ACCESS_COLUMNS)) {
    await sql`
      create trigger ${sql.id(`${table}_access`)}
      after insert or delete or truncate or update of ${sql.raw(columns.join(', '))} on ${sql.table(table)}
      for each statement execute function raise_access_revision()`.execute(database);
  }
  await sql`
    create function refuse_change() returns trigger language plpgsql as $$
    begin
      raise exception 'the audit log is append-only';
    end $$`.execute(database);
  await sql`
    create trigger audit_append_only before update or delete or truncate on audit
    for each statement execute function refuse_change()`.execute(database);
}
