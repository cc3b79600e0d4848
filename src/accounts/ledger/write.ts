import {
  CHECKPOINTED,
  OPENED,
  SETTLED,
  sqlName,
  type LedgerColumns,
  type LedgerState,
  type RowOf,
} from '../../database/ledger-columns.ts';
import { NO_USAGE, type Usage } from '../../generation.ts';
import { costOf, type TokenPrice } from './cost.ts';
import { bucketOf } from './histogram.ts';
import type { OpenedRow, RunningCounts, Settlement } from './ledger.ts';

/** A column value. Rows are passed to the database as arrays, which cost less than objects. */
export type Value = string | number | bigint | null;

/** Writes that are committed together, in this order. */
export interface Batch {
  opens: readonly (readonly Value[])[];
  ended: readonly EndedRequest[];
  checkpoints: readonly (readonly Value[])[];
  settles: readonly SettledValues[];
  /** Usage keys of `settles`, in the same order. Reading them from SQLite would be slower. */
  usageKeys: readonly UsageKey[];
  /** IDs of settled rows whose response did not reach the client. */
  undelivered: readonly string[];
}

/** A request that ended before its row was written. The row is inserted as settled. */
export interface EndedRequest {
  /** The values of `OPENED`. */
  opened: readonly Value[];
  settled: SettledValues;
  usageKey: UsageKey;
}

/** The values of a row that determine its roll-up. */
export type UsageKey = [account: string, key: string, model: string, startedAt: number];

export function usageKeyOf({ accountId, keyId, model, startedAt }: OpenedRow): UsageKey {
  return [accountId, keyId, model, startedAt];
}

/** `error_code` of a request whose client disconnected. */
export const CLIENT_DISCONNECTED = 'client_disconnected';

export const openedValues = binder(OPENED);
const checkpointedValues = binder(CHECKPOINTED);
const endedValues = binder(SETTLED);

/** Returns a function that lists the values of a row in the order of the columns. */
function binder<C extends LedgerColumns>(columns: C): (row: RowOf<C>) => Value[] {
  const properties: readonly (keyof C)[] = Object.keys(columns);
  return (row) => {
    const values: Value[] = [];
    for (const property of properties) values.push(bound(row[property]));
    return values;
  };
}

function bound(value: unknown): Value {
  // No column has another type.
  return typeof value === 'boolean' ? Number(value) : (value as Value);
}

/** Maximum tokens in one count of a row. Keeps the sums of 9 million such rows within 2^53. */
const MAX_TOKENS_PER_COUNT = 1_000_000_000;

/** Whether the counts can be stored. A replica can report any value. */
export function isCountable(usage: Readonly<Usage>): boolean {
  return Object.values(usageOf(usage)).every(
    (tokens) => Number.isInteger(tokens) && tokens >= 0 && tokens <= MAX_TOKENS_PER_COUNT,
  );
}

export function checkpointValues(id: string, counts: RunningCounts, atMs: number): Value[] {
  const usage = isCountable(counts.usage) ? counts.usage : NO_USAGE;
  return [id, ...checkpointedValues({ ...countsOf({ ...counts, usage }), checkpointAt: atMs })];
}

/** The start and price of a request. */
export interface RowStart {
  startedAt: number;
  price: TokenPrice;
}

/** The ID of a row, its buckets in `latency_days` (null: none), and the values of `SETTLED`. */
export type SettledValues = readonly [id: string, ttft: number | null, speed: number | null, ...Value[]];

export function settledValues(id: string, opened: RowStart, ended: Settlement): SettledValues {
  const { ttft, speed } = latencies(opened, ended);
  const { endedAt, attempts, continuedAfter, billed, finishReason, errorCode, httpStatus, delivered } = ended;
  const row = { endedAt, attempts, continuedAfter, billed, finishReason, errorCode, httpStatus, delivered };
  const costPico = billed ? costOf(ended.usage, opened.price) : 0n;
  return [id, ttft, speed, ...endedValues({ state: 'settled', ...countsOf(ended), costPico, ...row })];
}

/** Columns of a row whose request was rejected because it could not be settled in time. */
const WAIVED_ROW = {
  billed: false,
  costPico: 0n,
  finishReason: null,
  errorCode: 'storage_unavailable',
  httpStatus: 503,
} as const satisfies Partial<RowOf<typeof SETTLED>>;

/** `WAIVED_ROW` by SQL name. */
export const WAIVED: ReadonlyMap<string, Value> = new Map(
  Object.entries(WAIVED_ROW).map(([property, value]) => [sqlName(property), bound(value)]),
);

/** Returns the index of a column in the values of `SETTLED`. */
export function columnIndex(property: keyof typeof SETTLED): number {
  return Object.keys(SETTLED).indexOf(property);
}

const BILLED = columnIndex('billed');
const WAIVED_VALUES = Object.keys(SETTLED).flatMap((property, index) => {
  const value = WAIVED.get(sqlName(property));
  return value === undefined ? [] : [{ index, value }];
});

/** Returns the values of a settlement with its charge canceled; null if it is not billed. */
export function waivedValues([id, , , ...row]: SettledValues): SettledValues | null {
  if (row[BILLED] !== 1) return null;
  for (const { index, value } of WAIVED_VALUES) row[index] = value;
  return [id, null, null, ...row];
}

/** Returns a settlement for the row of a rejected request, in case the row exists. */
export function neverRanValues(id: string, atMs: number): SettledValues {
  return emptyValues(id, 'interrupted', atMs);
}

/** Returns the settlement to write after the database has refused the actual one. */
export function unwritableValues(id: string, atMs: number): SettledValues {
  return emptyValues(id, 'settled', atMs);
}

/** Returns a settlement without counts or cost, with the error that the caller received. */
function emptyValues(id: string, state: LedgerState, endedAt: number): SettledValues {
  const counts = { usageSource: null, replica: null, slotAt: null, firstTokenAt: null };
  const row = {
    state,
    ...NO_USAGE,
    ...counts,
    endedAt,
    attempts: 0,
    continuedAfter: null,
    delivered: null,
    ...WAIVED_ROW,
  };
  return [id, null, null, ...endedValues(row)];
}

function countsOf({ usage, usageSource, replica, slotAt, firstTokenAt }: RunningCounts) {
  return { ...usageOf(usage), usageSource, replica, slotAt, firstTokenAt };
}

function usageOf({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: Readonly<Usage>): Usage {
  return { promptTokens, cachedTokens, completionTokens, reasoningTokens };
}

/** Returns the buckets of TTFT (milliseconds) and of the tokens per second after it; null for failed requests. */
function latencies(opened: RowStart, ended: Settlement): { ttft: number | null; speed: number | null } {
  const { firstTokenAt, endedAt, errorCode, usage } = ended;
  if (firstTokenAt === null || (errorCode !== null && errorCode !== CLIENT_DISCONNECTED))
    return { ttft: null, speed: null };
  const after = usage.completionTokens - 1;
  const tookMs = endedAt - firstTokenAt;
  return {
    ttft: bucketOf(firstTokenAt - opened.startedAt),
    speed: after > 0 && tookMs > 0 ? bucketOf((after * 1000) / tookMs) : null,
  };
}
