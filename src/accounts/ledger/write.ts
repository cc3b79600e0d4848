import type { LedgerState } from '../../database/schema.ts';
import type { Usage } from '../../generation.ts';
import { costOf, type TokenPrice } from './cost.ts';
import { bucketOf } from './histogram.ts';
import type { OpenedRow, RunningCounts, Settlement } from './ledger.ts';

/** What a column takes. Rows cross to the database as arrays of these, which costs less than records. */
export type Value = string | number | bigint | null;

/** Columns in the order in which their values stand in a row of values, with their types on PostgreSQL. */
type Columns = Readonly<Record<string, 'text' | 'int8'>>;

/** Of a row that is opened. What is not here is null or 0 until it is settled. */
export const OPENED = {
  id: 'text',
  client_request_id: 'text',
  account_id: 'text',
  key_id: 'text',
  endpoint: 'text',
  model: 'text',
  streamed: 'int8',
  started_at: 'int8',
  plan: 'text',
  limits: 'text',
  reserved_tokens: 'int8',
  reserved_pico: 'int8',
  price_prompt: 'int8',
  price_completion: 'int8',
} as const satisfies Columns;

/** Of a running row, after its id. */
export const CHECKPOINTED = {
  prompt_tokens: 'int8',
  cached_tokens: 'int8',
  completion_tokens: 'int8',
  usage_source: 'text',
  replica: 'text',
  slot_at: 'int8',
  first_token_at: 'int8',
  checkpoint_at: 'int8',
} as const satisfies Columns;

/** Of a row that has ended, after its id and its buckets of `latency_days` (TTFT, speed), null where it feeds none. */
export const SETTLED = {
  state: 'text',
  prompt_tokens: 'int8',
  cached_tokens: 'int8',
  completion_tokens: 'int8',
  usage_source: 'text',
  replica: 'text',
  slot_at: 'int8',
  first_token_at: 'int8',
  ended_at: 'int8',
  attempts: 'int8',
  billed: 'int8',
  cost_pico: 'int8',
  finish_reason: 'text',
  error_code: 'text',
  http_status: 'int8',
  delivered: 'int8',
} as const satisfies Columns;

/** Writes that become durable together or not at all. No row is in it twice. */
export interface Batch {
  opens: readonly (readonly Value[])[];
  checkpoints: readonly (readonly Value[])[];
  settles: readonly (readonly Value[])[];
  /** Whose those rows are, in the same order: on SQLite it would cost more to ask for it. */
  owners: readonly Owner[];
  /** Ids of settled rows whose last bytes did not reach their callers. */
  undelivered: readonly string[];
}

/** What the sums of a day go by. */
export type Owner = [account: string, key: string, model: string, startedAt: number];

export function ownerOf({ accountId, keyId, model, startedAt }: OpenedRow): Owner {
  return [accountId, keyId, model, startedAt];
}

const NO_USAGE: Readonly<Usage> = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };

/** `error_code` of a request whose caller hung up. */
export const HUNG_UP = 'hung_up';

export function openedValues(row: OpenedRow): Value[] {
  return [
    row.id,
    row.clientRequestId,
    row.accountId,
    row.keyId,
    row.endpoint,
    row.model,
    row.streamed ? 1 : 0,
    row.startedAt,
    row.plan,
    row.limits,
    row.reservedTokens,
    row.reservedPico,
    row.pricePrompt,
    row.priceCompletion,
  ];
}

/**
 * The most tokens of a kind that one row counts: no engine has a context near it, and the sums of a day and of a
 * report stay within 2^53 for 9 million such rows.
 */
const MOST_TOKENS = 1_000_000_000;

/** Whether a row can hold these counts; what a replica reports can be anything. */
export function isCountable({ promptTokens, cachedTokens, completionTokens }: Readonly<Usage>): boolean {
  return [promptTokens, cachedTokens, completionTokens].every(
    (tokens) => Number.isInteger(tokens) && tokens >= 0 && tokens <= MOST_TOKENS,
  );
}

export function checkpointValues(id: string, counts: RunningCounts, atMs: number): Value[] {
  return [id, ...countValues(isCountable(counts.usage) ? counts : { ...counts, usage: NO_USAGE }), atMs];
}

/** What is known of a row besides how it ended. */
export interface Opened {
  startedAt: number;
  price: TokenPrice;
}

export function settledValues(id: string, opened: Opened, ended: Settlement): Value[] {
  const { ttft, speed } = latencies(opened, ended);
  const cost = ended.billed ? costOf(ended.usage, opened.price) : 0n;
  return values(id, ttft, speed, 'settled', cost, ended);
}

/** Columns of a row whose request was told that it could not be settled in time. */
export const WAIVED: ReadonlyMap<string, Value> = new Map<keyof typeof SETTLED, Value>([
  ['billed', 0],
  ['cost_pico', 0],
  ['finish_reason', null],
  ['error_code', 'storage_unavailable'],
  ['http_status', 503],
]);

/** The values of a settlement at no cost; null: it has none. */
export function waivedValues([id = null, , , ...row]: readonly Value[]): Value[] | null {
  const columns = Object.keys(SETTLED);
  if (row[columns.indexOf('billed')] !== 1) return null;
  const waived = row.map((value, index) => {
    const column = columns[index] ?? '';
    return WAIVED.has(column) ? (WAIVED.get(column) ?? null) : value;
  });
  return [id, null, null, ...waived];
}

/** Ends a row that may have been opened although its opening was refused to the request: it never ran. */
export function neverRanValues(id: string, atMs: number): Value[] {
  return emptyValues(id, 'interrupted', atMs);
}

/** Ends a row whose settlement the database refuses. */
export function unwritableValues(id: string, atMs: number): Value[] {
  return emptyValues(id, 'settled', atMs);
}

/** Without counts or cost, and with the error that the request was told. */
function emptyValues(id: string, state: LedgerState, atMs: number): Value[] {
  return values(id, null, null, state, 0n, {
    usage: NO_USAGE,
    usageSource: null,
    replica: null,
    slotAt: null,
    firstTokenAt: null,
    endedAt: atMs,
    attempts: 0,
    billed: false,
    finishReason: null,
    errorCode: 'storage_unavailable',
    httpStatus: 503,
    delivered: null,
  });
}

function values(
  id: string,
  ttft: number | null,
  speed: number | null,
  state: LedgerState,
  cost: bigint,
  ended: Settlement,
): Value[] {
  return [
    id,
    ttft,
    speed,
    state,
    ...countValues(ended),
    ended.endedAt,
    ended.attempts,
    ended.billed ? 1 : 0,
    cost,
    ended.finishReason,
    ended.errorCode,
    ended.httpStatus,
    ended.delivered === null ? null : Number(ended.delivered),
  ];
}

function countValues({ usage, usageSource, replica, slotAt, firstTokenAt }: RunningCounts): Value[] {
  return [
    usage.promptTokens,
    usage.cachedTokens,
    usage.completionTokens,
    usageSource,
    replica,
    slotAt,
    firstTokenAt,
  ];
}

/**
 * Buckets of the time to the first token, in milliseconds, and of the tokens a second after it. Requests that ended
 * with an error have none: theirs say nothing about an answer.
 */
function latencies(opened: Opened, ended: Settlement): { ttft: number | null; speed: number | null } {
  const { firstTokenAt, endedAt, errorCode, usage } = ended;
  if (firstTokenAt === null || (errorCode !== null && errorCode !== HUNG_UP))
    return { ttft: null, speed: null };
  const after = usage.completionTokens - 1;
  const tookMs = endedAt - firstTokenAt;
  return {
    ttft: bucketOf(firstTokenAt - opened.startedAt),
    speed: after > 0 && tookMs > 0 ? bucketOf((after * 1000) / tookMs) : null,
  };
}
