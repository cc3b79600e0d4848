import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/**
 * Adds the client to requests and to the last use of keys, and creates the daily sums by client. Existing rows have no
 * client, and neither do rows written by instances of the previous version, which may still be running. These instances
 * could not write to `usage_days` if the client were part of its key; it keeps the sums of all clients.
 */
export async function addClients(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text, integer, small, strictByKey } = columnTypes(kind);
  await sql`
    create table client_days (
      account_id ${text} not null,
      day ${small} not null,
      model ${text} not null,
      key_id ${text} not null,
      client ${text} not null,
      requests ${integer} not null,
      errors ${integer} not null,
      aborted ${integer} not null,
      interrupted ${integer} not null,
      prompt_tokens ${integer} not null,
      cached_tokens ${integer} not null,
      cache_miss_tokens ${integer} not null,
      completion_tokens ${integer} not null,
      reasoning_tokens ${integer} not null,
      billed_tokens ${integer} not null,
      cost_pico ${integer} not null,
      primary key (account_id, day, model, key_id, client)
    ) ${strictByKey}`.execute(database);
  await sql`alter table ledger add column client ${text}`.execute(database);
  await sql`alter table keys add column last_used_client ${text}`.execute(database);
}
