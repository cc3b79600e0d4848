import { randomBytes } from 'node:crypto';
import { sql, type Transaction } from 'kysely';
import { AUTH_SECRET, type Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Adds credentials, sessions, invitations, and keys of the console. */
export async function createIdentity(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text, integer, small, strict, strictByKey } = columnTypes(kind);
  for (const flag of ['email_verified', 'operator', 'two_factor']) {
    await sql`
      alter table people add column ${sql.id(flag)} ${small} not null default 0
      check (${sql.id(flag)} in (0, 1))`.execute(database);
  }
  await sql`alter table people add column updated_at ${integer} not null default 0`.execute(database);
  await sql`update people set updated_at = created_at`.execute(database);
  await sql`
    alter table keys add column purpose ${text} not null default 'api'
    check (purpose in ('api', 'playground'))`.execute(database);
  await sql`alter table keys add column last_used_ip ${text}`.execute(database);
  await sql`
    create table credentials (
      id ${text} not null primary key,
      person_id ${text} not null references people (id) on delete cascade,
      provider ${text} not null,
      subject ${text} not null,
      password_hash ${text},
      created_at ${integer} not null,
      updated_at ${integer} not null,
      unique (provider, subject)
    ) ${strict}`.execute(database);
  await sql`create index credentials_person on credentials (person_id)`.execute(database);
  await sql`
    create table sessions (
      id ${text} not null primary key,
      token_hash ${text} not null unique check (length(token_hash) = 64),
      person_id ${text} not null references people (id) on delete cascade,
      pending ${small} not null check (pending in (0, 1)),
      ip ${text},
      user_agent ${text},
      created_at ${integer} not null,
      last_active_at ${integer} not null,
      expires_at ${integer} not null
    ) ${strict}`.execute(database);
  await sql`create index sessions_person on sessions (person_id, created_at, id)`.execute(database);
  await sql`
    create table verifications (
      id ${text} not null primary key,
      identifier ${text} not null,
      value ${text} not null,
      created_at ${integer} not null,
      updated_at ${integer} not null,
      expires_at ${integer} not null
    ) ${strict}`.execute(database);
  await sql`create index verifications_identifier on verifications (identifier)`.execute(database);
  await sql`
    create table second_factors (
      person_id ${text} not null primary key references people (id) on delete cascade,
      secret ${text} not null,
      confirmed ${small} not null check (confirmed in (0, 1)),
      last_step ${integer} not null,
      created_at ${integer} not null
    ) ${strictByKey}`.execute(database);
  await sql`
    create table recovery_codes (
      person_id ${text} not null references people (id) on delete cascade,
      hash ${text} not null check (length(hash) = 64),
      primary key (person_id, hash)
    ) ${strictByKey}`.execute(database);
  await sql`
    create table attempts (
      name ${text} not null primary key,
      count ${integer} not null,
      until ${integer} not null
    ) ${strictByKey}`.execute(database);
  await sql`
    create table invitations (
      id ${text} not null primary key,
      token_hash ${text} not null unique check (length(token_hash) = 64),
      account_id ${text} not null references accounts (id),
      email ${text} not null,
      role ${text} not null check (role in ('owner', 'member')),
      invited_by ${text} not null,
      created_at ${integer} not null,
      expires_at ${integer} not null,
      unique (account_id, email)
    ) ${strict}`.execute(database);
  await sql`create index invitations_email on invitations (email)`.execute(database);
  await database
    .insertInto('settings')
    .values({ name: AUTH_SECRET, value: randomBytes(32).toString('hex') })
    .execute();
}
