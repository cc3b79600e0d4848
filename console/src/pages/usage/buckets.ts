import { USAGE_COUNTS, type ItemOf } from '../../api/client.ts';
import type { Days } from '../../components/date-range-days.ts';
import { inexact } from '../../format/money.ts';

/** Usage totals of a day, an hour or a whole period. */
export type Sums = ItemOf<'readUsage'>;

/** Totals of each hour or day; null: no requests. */
export type OverTime = readonly (Sums | null)[];

const LENGTH = { hour: 3600, day: 86_400 } as const;

/** Returns the start of each hour or day, in Unix seconds. */
export function timesOf({ from, to }: Days, unit: 'hour' | 'day'): number[] {
  const first = Date.parse(from) / 1000;
  const count = (Date.parse(to) / 1000 - first) / LENGTH[unit];
  return Array.from({ length: count }, (_, index) => first + index * LENGTH[unit]);
}

/** Returns the end of the hour or day that starts at `time`, in Unix seconds. */
export const endOf = (time: number, unit: 'hour' | 'day'): number => time + LENGTH[unit];

/** Returns the index of the hour or day of a time (ISO 8601); undefined: it is not among them. */
export function indexNow(times: readonly number[], unit: 'hour' | 'day', now: string): number | undefined {
  const seconds = Date.parse(now) / 1000;
  const index = times.findIndex((time) => time <= seconds && seconds < endOf(time, unit));
  return index === -1 ? undefined : index;
}

/** Returns whether nothing was charged. */
export const isFree = (over: OverTime | undefined): boolean =>
  over !== undefined && over.every((sums) => sums === null || inexact(sums.cost_usd) === 0);

/** Returns the row of each hour or day. */
export function overTime(times: readonly number[], rows: readonly Sums[]): OverTime {
  const byTime = new Map(rows.map((row) => [Date.parse(row.hour ?? row.day ?? '') / 1000, row]));
  return times.map((time) => byTime.get(time) ?? null);
}

/** Additive measures. Cost is a float, for charts and shares only. */
const MEASURES = {
  requests: (sums: Sums) => sums.requests,
  completed: ({ requests, errors, aborted, interrupted }: Sums) => requests - errors - aborted - interrupted,
  errors: (sums: Sums) => sums.errors,
  disconnected: (sums: Sums) => sums.aborted,
  interrupted: (sums: Sums) => sums.interrupted,
  prompt: (sums: Sums) => sums.prompt_tokens,
  uncached: (sums: Sums) => sums.prompt_tokens - sums.cached_tokens,
  cached: (sums: Sums) => sums.cached_tokens,
  completion: (sums: Sums) => sums.completion_tokens,
  answer: (sums: Sums) => sums.completion_tokens - sums.reasoning_tokens,
  reasoning: (sums: Sums) => sums.reasoning_tokens,
  tokens: (sums: Sums) => sums.prompt_tokens + sums.completion_tokens,
  cost: (sums: Sums) => inexact(sums.cost_usd),
} as const;
export type Measure = keyof typeof MEASURES;

/** Returns a measure of each hour or day, 0 if it has no requests. */
export const valuesOf = (over: OverTime, measure: Measure): number[] =>
  over.map((sums) => (sums === null ? 0 : MEASURES[measure](sums)));

/** A period of which only a part has passed, and the one before it. */
interface Running {
  /** Index of the hour or day that has not ended; undefined: the period has. */
  running: number | undefined;
  before: OverTime;
  /** If it is a day: the hours of the day at this index before, and how many have begun today; null: it is an hour. */
  hours: { before: OverTime; begun: number } | null;
}

/** Returns the entries of the period before that are to be compared: up to the same hour. */
export function untilSameHour({ running, before, hours }: Running): OverTime {
  if (running === undefined) return before;
  if (hours === null) return before.slice(0, running + 1);
  return [...before.slice(0, running), ...hours.before.slice(0, hours.begun)];
}

/** Returns the totals of these entries, with the percentiles of the whole period. The cost is inexact. */
export function sumsOf(over: OverTime, whole: Sums): Sums {
  const begun = over.filter((sums) => sums !== null);
  const total = (of: (sums: Sums) => number) => begun.reduce((sum, sums) => sum + of(sums), 0);
  const counts = USAGE_COUNTS.map((name) => [name, total((sums) => sums[name])] as const);
  return { ...whole, ...Object.fromEntries(counts), cost_usd: total(MEASURES.cost).toFixed(12) };
}

/** Returns what remains of each total after subtracting the parts, at least 0. */
export const rest = (all: readonly number[], parts: readonly (readonly number[])[]): number[] =>
  all.map((value, index) =>
    Math.max(
      0,
      parts.reduce((left, part) => left - (part[index] ?? 0), value),
    ),
  );

/** Returns a percentile of the time to first token in each hour or day; null: no data. */
export const ttftAt = (over: OverTime, share: 'p50' | 'p95'): (number | null)[] =>
  over.map((sums) => sums?.ttft_ms?.[share] ?? null);

/** Returns a percentile of the tokens per second in each hour or day; null: no data. */
export const speedAt = (over: OverTime, share: 'p50' | 'p5'): (number | null)[] =>
  over.map((sums) => sums?.tokens_per_second?.[share] ?? null);
