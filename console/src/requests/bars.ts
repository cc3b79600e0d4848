import type { ItemOf } from '../api/client.ts';
import { addDays, dayAt } from '../components/date-range-days.ts';
import { timeRangeQuery, type TimeRange } from '../components/time-range.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Hours or days whose requests are counted: Unix milliseconds at the start of an hour or day. `toMs` is not included. */
export interface Period {
  fromMs: number;
  toMs: number;
  unit: 'hour' | 'day';
}

/** Longer periods are counted by day, because the service has no roll-ups of hours. */
const MAX_DAYS_BY_HOUR = 2;
/** The days that are counted if no start is chosen, and at most, to keep the bars visible. */
const DEFAULT_DAYS = 30;
const MAX_DAYS = 366;

/** Returns the hours or days of a time range until now, the latest ones. Empty: it has not begun. `hour`: the current one. */
export function periodOf(range: TimeRange, hour: string): Period {
  const { from, to } = timeRangeQuery(range, hour.slice(0, 10));
  const nowMs = Date.parse(hour) + HOUR_MS;
  const endMs = to === undefined ? nowMs : Math.min(Date.parse(to), nowMs);
  const days = from === undefined ? DEFAULT_DAYS : MAX_DAYS;
  const startMs = Math.max(endMs - days * DAY_MS, from === undefined ? 0 : Date.parse(from));
  const unit = endMs - startMs <= MAX_DAYS_BY_HOUR * DAY_MS ? 'hour' : 'day';
  const length = lengthMs(unit);
  return { fromMs: Math.floor(startMs / length) * length, toMs: Math.ceil(endMs / length) * length, unit };
}

const lengthMs = (unit: Period['unit']): number => (unit === 'hour' ? HOUR_MS : DAY_MS);

/** Returns the days of a period, as the usage reports take them. */
export const daysOfPeriod = ({ fromMs, toMs }: Period) => ({
  from: dayAt(fromMs),
  to: addDays(dayAt(toMs - 1), 1),
});

/** The requests of an hour or day. */
export interface Bar {
  /** ISO 8601 in UTC. */
  from: string;
  to: string;
  /** Including `disconnected`. */
  completed: number;
  /** Including `interrupted`. */
  failed: number;
  refused: number;
  /** Requests whose client disconnected. */
  disconnected: number;
  /** Requests that the service interrupted. */
  interrupted: number;
}

/** Returns the bars of a period, oldest first. `usage` is by the unit of the period. */
export function barsOf(
  { fromMs, toMs, unit }: Period,
  usage: readonly ItemOf<'readUsage'>[],
  refusals: readonly ItemOf<'countRefusals'>[],
): Bar[] {
  const length = lengthMs(unit);
  const indexOf = (time: string) => Math.floor((Date.parse(time) - fromMs) / length);
  const sums = new Map(usage.map((row) => [indexOf(row[unit] ?? ''), row]));
  const refused = Map.groupBy(refusals, (row) => indexOf(row.hour));
  return Array.from({ length: Math.max(0, (toMs - fromMs) / length) }, (_, index) => {
    const { requests = 0, errors = 0, interrupted = 0, aborted = 0 } = sums.get(index) ?? {};
    const failed = errors + interrupted;
    return {
      from: secondOf(fromMs + index * length),
      to: secondOf(fromMs + (index + 1) * length),
      completed: requests - failed,
      failed,
      refused: (refused.get(index) ?? []).reduce((sum, { count }) => sum + count, 0),
      disconnected: aborted,
      interrupted,
    };
  });
}

const secondOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

/** Returns how many requests each status of the filter has. */
export function statusCounts(bars: readonly Bar[]): Readonly<Record<string, number>> {
  const sum = (value: (bar: Bar) => number) => bars.reduce((total, bar) => total + value(bar), 0);
  return {
    completed: sum(({ completed, disconnected }) => completed - disconnected),
    error: sum(({ failed, interrupted }) => failed - interrupted),
    client_disconnected: sum(({ disconnected }) => disconnected),
    interrupted: sum(({ interrupted }) => interrupted),
    refused: sum(({ refused }) => refused),
  };
}
