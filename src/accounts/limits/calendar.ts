import { DAY_MS, dayOf } from '../ledger/days.ts';
import type { LimitKind } from './kinds.ts';

/** Converts Unix milliseconds to the UTC month, in months since the year 0. */
export function utcMonth(atMs: number): number {
  const date = new Date(atMs);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/** The UTC day and month that are counted, as `dayOf` and `utcMonth` return them. */
export interface Periods {
  readonly day: number;
  readonly month: number;
}

/** Whether both are in the same period of a calendar window. All other windows have no periods. */
export function inSamePeriod(window: LimitKind['window'], one: Periods, other: Periods): boolean {
  if (window === 'day') return one.day === other.day;
  return window !== 'month' || one.month === other.month;
}

/** Returns the end of the UTC day or month, in Unix milliseconds. */
export function endOf(period: 'day' | 'month', atMs: number): number {
  if (period === 'day') return (dayOf(atMs) + 1) * DAY_MS;
  const date = new Date(atMs);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
}

/** Formats a duration as in `x-ratelimit-reset-*` headers: `120ms`, `1.5s`, `6m0s`, `1h30m0s`. */
export function formatDuration(ms: number): string {
  if (ms < 1000) return `${ms}ms`;
  if (ms < 60_000) return `${ms / 1000}s`;
  const seconds = Math.ceil(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  const rest = `${minutes % 60}m${seconds % 60}s`;
  return minutes < 60 ? rest : `${Math.floor(minutes / 60)}h${rest}`;
}
