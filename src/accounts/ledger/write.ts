import {
  CHECKPOINTED,
  OPENED,
  SETTLED,
  type Column,
  type LedgerState,
  type RowOf,
} from '../../database/ledger-columns.ts';
import { NO_USAGE, type Usage } from '../../core/generation.ts';
import { costOf, type TokenPrice } from './cost.ts';
import { bucketOf } from './histogram.ts';
import type { OpenedRow, RunningCounts, Settlement } from './ledger.ts';
import { CLIENT_DISCONNECTED, WAIVED } from './roll-ups.ts';

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

/** The values of `ROLLED_UP_BY`. */
export type UsageKey = [
  account: string,
  key: string,
  model: string,
  startedAt: number,
  client: string | null,
];

export function usageKeyOf({ accountId, keyId, model, startedAt, client = null }: OpenedRow): UsageKey {
  return [accountId, keyId, model, startedAt, client];
}

export function openedValues(row: OpenedRow): Value[] {
  return valuesOf(OPENED, row);
}

/** Lists the values of columns, each from the first source that has one; null if none has. */
function valuesOf(columns: readonly Column[], ...sources: readonly object[]): Value[] {
  return columns.map(({ property }) => {
    for (const source of sources as readonly Record<string, unknown>[]) {
      const value = source[property] ?? null;
      // No column has another type.
      if (value !== null) return typeof value === 'boolean' ? Number(value) : (value as Value);
    }
    return null;
  });
}

/** Maximum tokens in one count of a row. Keeps the sums of 9 million such rows within 2^53. */
const MAX_TOKENS_PER_COUNT = 1_000_000_000;

// The keys of the object.
const COUNTS = Object.keys(NO_USAGE) as (keyof Usage)[];

/** Whether the counts can be stored. A replica can report any value. */
export function isCountable(usage: Readonly<Usage>): boolean {
  return COUNTS.every((name) => {
    const tokens = usage[name];
    return Number.isInteger(tokens) && tokens >= 0 && tokens <= MAX_TOKENS_PER_COUNT;
  });
}

export function checkpointValues(id: string, counts: RunningCounts, checkpointAt: number): Value[] {
  const usage = isCountable(counts.usage) ? counts.usage : NO_USAGE;
  return [id, ...valuesOf(CHECKPOINTED, { checkpointAt }, usage, counts)];
}

/** The start and price of a request. */
export interface RowStart {
  startedAt: number;
  price: TokenPrice;
}

export function rowStartOf({
  startedAt,
  pricePrompt: prompt,
  priceCompletion: completion,
  priceInputCacheRead: inputCacheRead = null,
}: OpenedRow): RowStart {
  return { startedAt, price: { prompt, completion, inputCacheRead } };
}

/** The ID of a row, its buckets in `latency_days` (null: none), and the values of `SETTLED`. */
export type SettledValues = readonly [id: string, ttft: number | null, speed: number | null, ...Value[]];

export function settledValues(id: string, opened: RowStart, ended: Settlement): SettledValues {
  const { ttft, speed } = latencies(opened, ended);
  const costPico = ended.billed ? costOf(ended.usage, opened.price) : 0n;
  const settled: Partial<RowOf<'settle'>> = { state: 'settled', costPico };
  return [id, ttft, speed, ...valuesOf(SETTLED, settled, ended.usage, ended)];
}

/** Index of the first value of `SETTLED` in `SettledValues`. */
export const SETTLED_AT = 3;

/** Returns the index of a column in the values of `SETTLED`. */
export function settledIndex(name: string): number {
  return SETTLED.findIndex((column) => column.name === name);
}

const BILLED = settledIndex('billed');
const WAIVED_VALUES = Object.entries(WAIVED).map(([name, value]) => ({ index: settledIndex(name), value }));

/** Returns the values of a settlement with its charge canceled; null if it is not billed. */
export function waivedValues([id, , , ...row]: SettledValues): SettledValues | null {
  return row[BILLED] === 1 ? waived(id, row) : null;
}

function waived(id: string, row: Value[]): SettledValues {
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
  const settled: Partial<RowOf<'settle'>> = { state, endedAt };
  return waived(id, valuesOf(SETTLED, settled, NOTHING));
}

/** 0 in each column that cannot be null. */
const NOTHING = Object.fromEntries(
  SETTLED.filter(({ nullable }) => !nullable).map(({ property }) => [property, 0]),
);

/** Returns the buckets of TTFT (milliseconds) and of the tokens per second after it; null for failed requests. */
function latencies(opened: RowStart, ended: Settlement): { ttft: number | null; speed: number | null } {
  const { firstTokenAt = null, endedAt, errorCode = null, usage } = ended;
  if (firstTokenAt === null || (errorCode !== null && errorCode !== CLIENT_DISCONNECTED))
    return { ttft: null, speed: null };
  const after = usage.completionTokens - 1;
  const tookMs = endedAt - firstTokenAt;
  return {
    ttft: bucketOf(firstTokenAt - opened.startedAt),
    speed: after > 0 && tookMs > 0 ? bucketOf((after * 1000) / tookMs) : null,
  };
}
