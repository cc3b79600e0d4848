import { sql } from 'kysely';
import type { Database } from '../src/database/database.ts';

/** A row with amounts in pico-dollars as bigint. */
export type LedgerRow = Awaited<ReturnType<typeof readRows>>[number];

/** Reads all rows of the ledger, oldest first. */
export async function readRows({ kysely }: Database) {
  const rows = await kysely
    .selectFrom('ledger')
    .select(['id', 'client_request_id', 'account_id', 'key_id', 'client', 'endpoint', 'model'])
    .select(['streamed', 'state'])
    .select(['epoch', 'attempts', 'replica', 'started_at', 'first_token_at', 'ended_at', 'checkpoint_at'])
    .select([
      'prompt_tokens',
      'cached_tokens',
      'completion_tokens',
      'reasoning_tokens',
      'usage_source',
      'billed',
    ])
    .select(['price_prompt', 'price_completion', 'price_input_cache_read'])
    .select(['finish_reason', 'error_code', 'http_status', 'delivered'])
    .select('reserved_tokens')
    .select(sql<string>`cast(cost_pico as text)`.as('cost_pico'))
    .select(sql<string>`cast(reserved_pico as text)`.as('reserved_pico'))
    .orderBy('id')
    .execute();
  return rows.map((row) => ({
    ...row,
    cost_pico: BigInt(row.cost_pico),
    reserved_pico: BigInt(row.reserved_pico),
  }));
}

/** Sums of the roll-ups, by their key columns. */
export interface RollUpSums {
  days: Map<string, (number | bigint)[]>;
  clients: Map<string, (number | bigint)[]>;
  latencies: Map<string, number>;
}

export async function readRollUps({ kysely }: Database): Promise<RollUpSums> {
  const days = await selectSums(kysely, 'usage_days').execute();
  const clients = await selectSums(kysely, 'client_days')
    .select(sql<string>`client`.as('client'))
    .execute();
  const latencies = await kysely.selectFrom('latency_days').selectAll().execute();
  return {
    days: new Map(
      days.map((day) => [[day.account_id, day.day, day.model, day.key_id].join(' '), sumsOf(day)]),
    ),
    clients: new Map(
      clients.map((row) => [
        [row.account_id, row.day, row.model, row.key_id, row.client].join(' '),
        sumsOf(row),
      ]),
    ),
    latencies: new Map(
      latencies.map((row) => [
        [row.account_id, row.day, row.model, row.key_id, row.measure, row.bucket].join(' '),
        row.count,
      ]),
    ),
  };
}

function selectSums(kysely: Database['kysely'], table: 'usage_days' | 'client_days') {
  return kysely
    .selectFrom(table)
    .select(['account_id', 'day', 'model', 'key_id', 'requests', 'errors', 'aborted', 'interrupted'])
    .select(['prompt_tokens', 'cached_tokens', 'completion_tokens', 'reasoning_tokens', 'billed_tokens'])
    .select(sql<string>`cast(cost_pico as text)`.as('cost_pico'));
}

function sumsOf(row: Awaited<ReturnType<ReturnType<typeof selectSums>['executeTakeFirstOrThrow']>>) {
  return [
    row.requests,
    row.errors,
    row.aborted,
    row.interrupted,
    row.prompt_tokens,
    row.cached_tokens,
    row.completion_tokens,
    row.reasoning_tokens,
    row.billed_tokens,
    BigInt(row.cost_pico),
  ];
}
