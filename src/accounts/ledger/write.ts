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
import type { OpenedRow, RunningCounts, Settlement } from './ledger.ts';
import { WAIVED } from './roll-up-writes.ts';

/** A column value. Rows are passed to the database as arrays, which cost less than objects. */
export type Value = string | number | bigint | null;

/** The values of a list of columns, of which the ID is the first. */
export type Values = readonly [id: string, ...Value[]];

/** Writes that are committed together, in this order. */
export interface Batch {
  /** The values of `OPENED`. */
  opens: readonly Values[];
  /** The values of `ENDED`: rows that are inserted as settled. */
  ended: readonly Values[];
  /** The values of `CHECKPOINTED`. */
  checkpoints: readonly Values[];
  /** The values of `SETTLED`. */
  settles: readonly Values[];
  /** IDs of settled rows whose response did not reach the client. */
  undelivered: readonly string[];
}

export function openedValues(row: OpenedRow): Values {
  return valuesOf(OPENED, row);
}

type Source = Readonly<Record<string, unknown>>;

/** Lists the values of columns, each from the first source that has one; null if none has. */
function valuesOf(columns: readonly Column[], row: object, usage: object = row, more: object = row): Values {
  const values: Value[] = [];
  for (const { property } of columns) {
    const value =
      (row as Source)[property] ?? (usage as Source)[property] ?? (more as Source)[property] ?? null;
    // No column has another type.
    values.push(typeof value === 'boolean' ? Number(value) : (value as Value));
  }
  // All lists of columns begin with the ID.
  return values as unknown as Values;
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

export function checkpointValues(id: string, counts: RunningCounts, checkpointAt: number): Values {
  const usage = isCountable(counts.usage) ? counts.usage : NO_USAGE;
  return valuesOf(CHECKPOINTED, counts, usage, { id, checkpointAt });
}

export function priceOf({
  pricePrompt: prompt,
  priceCompletion: completion,
  priceInputCacheRead: inputCacheRead = null,
}: OpenedRow): TokenPrice {
  return { prompt, completion, inputCacheRead };
}

export function settledValues(id: string, price: TokenPrice, ended: Settlement): Values {
  const costPico = ended.billed ? costOf(ended.usage, price) : 0n;
  const settled: Settled = { id, state: 'settled', costPico };
  return valuesOf(SETTLED, ended, ended.usage, settled);
}

type Settled = Partial<RowOf<'settle'>> & { id: string };

/** Combines the values of `OPENED` and `SETTLED` to those of `ENDED`. */
export function endedValues(opened: Values, settled: Values): Values {
  return [...opened, ...settled.slice(1)];
}

/** Returns the values of a settlement with its charge canceled; null if it is not billed. */
export function waivedValues(settled: Values): Values | null {
  const isBilled = SETTLED.some(({ name }, index) => name === 'billed' && settled[index] === 1);
  return isBilled ? waived(settled) : null;
}

function waived(settled: Values): Values {
  const values: Readonly<Record<string, Value>> = WAIVED;
  const row = SETTLED.map(({ name }, index) => (name in values ? values[name] : settled[index]));
  // The ID is not among them, and stays the first.
  return row as unknown as Values;
}

/**
 * Returns a settlement without counts or cost, with the error that the caller received. `settled`: the database has refused
 * the actual one. `interrupted`: the request was rejected before it ran, and its row may exist.
 */
export function emptyValues(id: string, state: LedgerState): Values {
  const settled: Settled = { id, state, endedAt: Date.now() };
  return waived(valuesOf(SETTLED, settled, NOTHING));
}

/** 0 in each column that cannot be null. */
const NOTHING = Object.fromEntries(
  SETTLED.filter(({ nullable }) => !nullable).map(({ property }) => [property, 0]),
);
