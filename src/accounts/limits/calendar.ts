import { DAY_MS, dayOf } from '../ledger/days.ts';

/** A window of limits whose periods follow each other without gaps and begin with a UTC day. They are numbered. */
interface Calendar {
  /** Returns the period of a time in Unix milliseconds. */
  readonly periodAt: (atMs: number) => number;
  /** Returns the start of a period, in Unix milliseconds. */
  readonly startOf: (period: number) => number;
  /** The current period in Lua, from `today`, the UTC day since 1970-01-01. */
  readonly lua: string;
  /** The field of the period in Valkey. Never change it: instances of other versions read it. */
  readonly field: string;
  /** As in `daily tokens`. */
  readonly adjective: string;
}

export const CALENDAR = {
  day: { periodAt: dayOf, startOf: (day) => day * DAY_MS, lua: 'today', field: 'd', adjective: 'daily' },
  // In months since the year 0.
  month: {
    periodAt: utcMonth,
    startOf: (month) => Date.UTC(Math.floor(month / 12), month % 12),
    lua: 'month_of(today)',
    field: 'm',
    adjective: 'monthly',
  },
} as const satisfies Record<string, Calendar>;

export type CalendarWindow = keyof typeof CALENDAR;

// `Object.keys` returns strings. New windows go to the end: reservations in Valkey have their periods in this order.
export const CALENDAR_WINDOWS = Object.keys(CALENDAR) as CalendarWindow[];

/** Converts Unix milliseconds to the UTC month, in months since the year 0. */
export function utcMonth(atMs: number): number {
  const date = new Date(atMs);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}

/** The period of each window that is counted. */
export type Periods = Readonly<Record<CalendarWindow, number>>;

/** Returns the periods of these numbers, in the order of the windows. */
export function periodsOf(numbers: readonly number[]): Periods {
  // An object with exactly these keys.
  return Object.fromEntries(CALENDAR_WINDOWS.map((window, index) => [window, numbers[index]])) as Periods;
}

/** Returns the periods of a time in Unix milliseconds. */
export function periodsAt(atMs: number): Periods {
  return periodsOf(CALENDAR_WINDOWS.map((window) => CALENDAR[window].periodAt(atMs)));
}

/** Whether both are in the same period of a window. `running` has no periods. */
export function inSamePeriod(window: CalendarWindow | 'running', one: Periods, other: Periods): boolean {
  return one === other || window === 'running' || one[window] === other[window];
}

/** Returns the start and the end of the period of a time, all in Unix milliseconds. */
export function periodAround(window: CalendarWindow, atMs: number): { fromMs: number; toMs: number } {
  const { periodAt, startOf } = CALENDAR[window];
  const period = periodAt(atMs);
  return { fromMs: startOf(period), toMs: startOf(period + 1) };
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
