import {
  CHECKPOINTED,
  OPENED,
  SETTLED,
  sqlName,
  type Columns,
  type LedgerState,
  type RowOf,
} from '../../database/ledger-columns.ts';
import type { Usage } from '../../generation.ts';
import { costOf, type TokenPrice } from './cost.ts';
import { bucketOf } from './histogram.ts';
import type { OpenedRow, RunningCounts, Settlement } from './ledger.ts';

/** What a column takes. Rows cross to the database as arrays of these, which costs less than records. */
export type Value = string | number | bigint | null;

/** Writes that become durable together or not at all. No row is in it twice. */
export interface Batch {
  opens: readonly (readonly Value[])[];
  checkpoints: readonly (readonly Value[])[];
  settles: readonly SettledValues[];
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

export const openedValues = binder(OPENED);
const checkpointedValues = binder(CHECKPOINTED);
const endedValues = binder(SETTLED);

/** Returns a function that lists the values of a row in the order of the columns. */
function binder<C extends Columns>(columns: C): (row: RowOf<C>) => Value[] {
  const properties: readonly (keyof C)[] = Object.keys(columns);
  return (row) => {
    const values: Value[] = [];
    for (const property of properties) values.push(bound(row[property]));
    return values;
  };
}

function bound(value: unknown): Value {
  // Values of columns are of no other type.
  return typeof value === 'boolean' ? Number(value) : (value as Value);
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
  const usage = isCountable(counts.usage) ? counts.usage : NO_USAGE;
  return [id, ...checkpointedValues({ ...countsOf({ ...counts, usage }), checkpointAt: atMs })];
}

/** What is known of a row besides how it ended. */
export interface Opened {
  startedAt: number;
  price: TokenPrice;
}

/** The id of a row, its buckets of `latency_days` (null where it feeds none), and the values of `SETTLED`. */
export type SettledValues = readonly [id: string, ttft: number | null, speed: number | null, ...Value[]];

export function settledValues(id: string, opened: Opened, ended: Settlement): SettledValues {
  const { ttft, speed } = latencies(opened, ended);
  const { endedAt, attempts, billed, finishReason, errorCode, httpStatus, delivered } = ended;
  const row = { endedAt, attempts, billed, finishReason, errorCode, httpStatus, delivered };
  const costPico = billed ? costOf(ended.usage, opened.price) : 0n;
  return [id, ttft, speed, ...endedValues({ state: 'settled', ...countsOf(ended), costPico, ...row })];
}

/** Columns of a row whose request was told that it could not be settled in time. */
const WAIVED_ROW = {
  billed: false,
  costPico: 0n,
  finishReason: null,
  errorCode: 'storage_unavailable',
  httpStatus: 503,
} as const satisfies Partial<RowOf<typeof SETTLED>>;

/** The same, by their names in SQL. */
export const WAIVED: ReadonlyMap<string, Value> = new Map(
  Object.entries(WAIVED_ROW).map(([property, value]) => [sqlName(property), bound(value)]),
);

/** The place of a column among the values of `SETTLED`. */
export function placeOf(property: keyof typeof SETTLED): number {
  return Object.keys(SETTLED).indexOf(property);
}

const BILLED = placeOf('billed');
const WAIVED_PLACES = Object.keys(SETTLED).flatMap((property, place) => {
  const value = WAIVED.get(sqlName(property));
  return value === undefined ? [] : [{ place, value }];
});

/** The values of a settlement at no cost; null: it has none. */
export function waivedValues([id, , , ...row]: SettledValues): SettledValues | null {
  if (row[BILLED] !== 1) return null;
  for (const { place, value } of WAIVED_PLACES) row[place] = value;
  return [id, null, null, ...row];
}

/** Ends a row that may have been opened although its opening was refused to the request: it never ran. */
export function neverRanValues(id: string, atMs: number): SettledValues {
  return emptyValues(id, 'interrupted', atMs);
}

/** Ends a row whose settlement the database refuses. */
export function unwritableValues(id: string, atMs: number): SettledValues {
  return emptyValues(id, 'settled', atMs);
}

/** Returns values with no counts and no cost, and with the error that the caller received. */
function emptyValues(id: string, state: LedgerState, endedAt: number): SettledValues {
  const counts = { usageSource: null, replica: null, slotAt: null, firstTokenAt: null };
  const row = {
    state,
    ...NO_USAGE,
    ...counts,
    endedAt,
    attempts: 0,
    delivered: null,
    ...WAIVED_ROW,
  };
  return [id, null, null, ...endedValues(row)];
}

function countsOf({ usage, usageSource, replica, slotAt, firstTokenAt }: RunningCounts) {
  const { promptTokens, cachedTokens, completionTokens } = usage;
  return { promptTokens, cachedTokens, completionTokens, usageSource, replica, slotAt, firstTokenAt };
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
