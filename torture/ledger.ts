import { sql } from 'kysely';
import type { Database } from '../src/database/database.ts';

/** A row with amounts in pico-dollars as bigint. */
export type LedgerRow = Awaited<ReturnType<typeof readRows>>[number];

/** Reads all rows of the ledger, oldest first. */
export async function readRows({ kysely }: Database) {
  const rows = await kysely
    .selectFrom('ledger')
    .select(['id', 'client_request_id', 'account_id', 'key_id', 'endpoint', 'model', 'streamed', 'state'])
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
  latencies: Map<string, number>;
}

export async function readRollUps({ kysely }: Database): Promise<RollUpSums> {
  const days = await kysely
    .selectFrom('usage_days')
    .select(['account_id', 'day', 'model', 'key_id', 'requests', 'errors', 'aborted', 'interrupted'])
    .select(['prompt_tokens', 'cached_tokens', 'completion_tokens', 'reasoning_tokens', 'billed_tokens'])
    .select(sql<string>`cast(cost_pico as text)`.as('cost_pico'))
    .execute();
  const latencies = await kysely.selectFrom('latency_days').selectAll().execute();
  return {
    days: new Map(
      days.map((day) => [
        [day.account_id, day.day, day.model, day.key_id].join(' '),
        [
          day.requests,
          day.errors,
          day.aborted,
          day.interrupted,
          day.prompt_tokens,
          day.cached_tokens,
          day.completion_tokens,
          day.reasoning_tokens,
          day.billed_tokens,
          BigInt(day.cost_pico),
        ],
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
