import { randomBytes } from 'node:crypto';
import { sql, type Transaction } from 'kysely';
import { CACHE_SCOPE_SECRET, DEFAULT_ACCOUNT_ID, type Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Creates the tables for accounts, keys and settings, the default account and the cache scope secret. */
export async function createKeys(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text, integer, strict } = columnTypes(kind);
  await sql`
    create table accounts (
      id ${text} not null primary key,
      name ${text} not null,
      status ${text} not null check (status in ('active', 'suspended', 'closed')),
      created_at ${integer} not null
    ) ${strict}`.execute(database);
  await sql`
    create table keys (
      id ${text} not null primary key,
      account_id ${text} not null references accounts (id),
      kind ${text} not null check (kind in ('caller', 'admin')),
      name ${text} not null,
      hash ${text} not null unique check (length(hash) = 64),
      prefix ${text} not null,
      last_four ${text} not null,
      created_at ${integer} not null,
      expires_at ${integer},
      revoked_at ${integer},
      last_used_at ${integer}
    ) ${strict}`.execute(database);
  await sql`
    create table settings (
      name ${text} not null primary key,
      value ${text} not null
    ) ${strict}`.execute(database);
  await database
    .insertInto('accounts')
    .values({ id: DEFAULT_ACCOUNT_ID, name: 'Default', status: 'active', created_at: Date.now() })
    .execute();
  await database
    .insertInto('settings')
    .values({ name: CACHE_SCOPE_SECRET, value: randomBytes(32).toString('hex') })
    .execute();
}
