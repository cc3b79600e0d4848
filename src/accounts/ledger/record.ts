import { sql, type Kysely } from 'kysely';
import type { LedgerState, Schema } from '../../database/schema.ts';

/** A row of the ledger as it is told. Times are Unix milliseconds, money is pico-dollars. */
export interface LedgerRecord {
  id: string;
  clientRequestId: string | null;
  accountId: string;
  keyId: string;
  endpoint: 'chat' | 'text';
  model: string;
  streamed: boolean;
  state: LedgerState;
  startedAt: number;
  plan: string;
  /** JSON of the limits it was held against. */
  limits: string;
  reservedTokens: number;
  reservedPico: bigint;
  /** Pico-dollars a token. */
  pricePrompt: number;
  priceCompletion: number;
  replica: string | null;
  attempts: number;
  slotAt: number | null;
  firstTokenAt: number | null;
  /** Null while it runs, and where nobody knows: the copy that ran it died. */
  endedAt: number | null;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  usageSource: 'engine' | 'estimated' | null;
  billed: boolean;
  costPico: bigint;
  finishReason: string | null;
  errorCode: string | null;
  httpStatus: number | null;
  delivered: boolean | null;
  checkpointAt: number | null;
}

/** Whole rows of the ledger, to be narrowed, ordered and bounded; `toRecord` turns each into what is told. */
export function selectRecords(kysely: Kysely<Schema>) {
  return kysely
    .selectFrom('ledger')
    .select([
      ...([
        'id',
        'client_request_id',
        'account_id',
        'key_id',
        'endpoint',
        'model',
        'streamed',
        'state',
      ] as const),
      ...(['started_at', 'plan', 'limits', 'reserved_tokens', 'price_prompt', 'price_completion'] as const),
      ...(['replica', 'attempts', 'slot_at', 'first_token_at', 'ended_at', 'checkpoint_at'] as const),
      ...(['prompt_tokens', 'cached_tokens', 'completion_tokens', 'usage_source', 'billed'] as const),
      ...(['finish_reason', 'error_code', 'http_status', 'delivered'] as const),
      sql<string>`cast(reserved_pico as text)`.as('reserved_pico'),
      sql<string>`cast(cost_pico as text)`.as('cost_pico'),
    ]);
}

type SelectedRow = Awaited<ReturnType<ReturnType<typeof selectRecords>['executeTakeFirstOrThrow']>>;

export function toRecord(row: SelectedRow): LedgerRecord {
  return {
    id: row.id,
    clientRequestId: row.client_request_id,
    accountId: row.account_id,
    keyId: row.key_id,
    endpoint: row.endpoint,
    model: row.model,
    streamed: row.streamed === 1,
    state: row.state,
    startedAt: row.started_at,
    plan: row.plan,
    limits: row.limits,
    reservedTokens: row.reserved_tokens,
    reservedPico: BigInt(row.reserved_pico),
    pricePrompt: row.price_prompt,
    priceCompletion: row.price_completion,
    replica: row.replica,
    attempts: row.attempts,
    slotAt: row.slot_at,
    firstTokenAt: row.first_token_at,
    endedAt: row.ended_at,
    promptTokens: row.prompt_tokens,
    cachedTokens: row.cached_tokens,
    completionTokens: row.completion_tokens,
    usageSource: row.usage_source,
    billed: row.billed === 1,
    costPico: BigInt(row.cost_pico),
    finishReason: row.finish_reason,
    errorCode: row.error_code,
    httpStatus: row.http_status,
    delivered: row.delivered === null ? null : row.delivered === 1,
    checkpointAt: row.checkpoint_at,
  };
}
