import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/**
 * Creates the tables of the ledger, of its roll-ups and of the instances that write them. They have no foreign keys to
 * accounts and keys, because ledger rows outlive accounts and keys, and because each check would cost a lookup per
 * request.
 */
export async function createLedger(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text, integer, small, strict, strictByKey } = columnTypes(kind);
  const postgres = kind === 'postgres';
  // Epochs must never be reused. Without `autoincrement`, SQLite reuses the highest number after its row is deleted.
  const epoch = sql.raw(
    postgres
      ? 'bigint generated always as identity primary key'
      : 'integer not null primary key autoincrement',
  );
  await sql`
    create table instances (
      epoch ${epoch},
      live ${small} not null check (live in (0, 1)),
      lease_until ${integer} not null,
      started_at ${integer} not null,
      pid ${small} not null
    ) ${strict}`.execute(database);
  await sql`
    create table ledger (
      id ${text} not null primary key,
      client_request_id ${text},
      account_id ${text} not null,
      key_id ${text} not null,
      endpoint ${text} not null check (endpoint in ('chat', 'text')),
      model ${text} not null,
      streamed ${small} not null check (streamed in (0, 1)),
      epoch ${integer} not null,
      state ${text} not null check (state in ('open', 'settled', 'interrupted')),
      started_at ${integer} not null,
      plan ${text} not null,
      limits ${text} not null,
      reserved_tokens ${integer} not null check (reserved_tokens >= 0),
      reserved_pico ${integer} not null check (reserved_pico >= 0),
      price_prompt ${integer} not null check (price_prompt >= 0),
      price_completion ${integer} not null check (price_completion >= 0),
      replica ${text},
      attempts ${small} not null,
      slot_at ${integer},
      first_token_at ${integer},
      ended_at ${integer},
      prompt_tokens ${integer} not null check (prompt_tokens >= 0),
      cached_tokens ${integer} not null check (cached_tokens >= 0),
      completion_tokens ${integer} not null check (completion_tokens >= 0),
      usage_source ${text} check (usage_source in ('engine', 'estimated')),
      billed ${small} not null check (billed in (0, 1)),
      cost_pico ${integer} not null check (cost_pico >= 0),
      finish_reason ${text},
      error_code ${text},
      http_status ${small},
      delivered ${small} check (delivered in (0, 1)),
      checkpoint_at ${integer}
    ) ${postgres ? sql.raw('partition by range (id)') : strictByKey}`.execute(database);
  await sql`create index ledger_account on ledger (account_id, id)`.execute(database);
  await sql`
    create index ledger_client_request on ledger (account_id, client_request_id)
    where client_request_id is not null`.execute(database);
  await sql`
    create index ledger_failed on ledger (account_id, id)
    where error_code is not null or state = 'interrupted'`.execute(database);
  await sql`create index ledger_open on ledger (epoch, account_id) where state = 'open'`.execute(database);
  await sql`
    create table usage_days (
      account_id ${text} not null,
      day ${small} not null,
      model ${text} not null,
      key_id ${text} not null,
      requests ${integer} not null,
      errors ${integer} not null,
      aborted ${integer} not null,
      interrupted ${integer} not null,
      prompt_tokens ${integer} not null,
      cached_tokens ${integer} not null,
      completion_tokens ${integer} not null,
      billed_tokens ${integer} not null,
      cost_pico ${integer} not null,
      primary key (account_id, day, model, key_id)
    ) ${strictByKey}`.execute(database);
  await sql`
    create table latency_days (
      account_id ${text} not null,
      day ${small} not null,
      model ${text} not null,
      key_id ${text} not null,
      measure ${text} not null check (measure in ('ttft', 'speed')),
      bucket ${small} not null,
      count ${integer} not null,
      primary key (account_id, day, model, key_id, measure, bucket)
    ) ${strictByKey}`.execute(database);
}
