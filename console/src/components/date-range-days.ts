import { useSyncExternalStore } from 'react';
import { utcDays } from '../format/time.ts';

/** A range of UTC days as ISO dates; `to` is not included. */
export interface Days {
  from: string;
  to: string;
}

const DAY_MS = 86_400_000;

/** Returns the UTC day of a time in Unix milliseconds. */
export const dayAt = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** Returns the day that is this number of days after `day`, or before it if the number is negative. */
export const addDays = (day: string, days: number): string => dayAt(Date.parse(day) + days * DAY_MS);

export const countDays = ({ from, to }: Days): number => (Date.parse(to) - Date.parse(from)) / DAY_MS;

/** Returns the first day of the month that is `later` months after the month of a day. */
export function monthOf(day: string, later = 0): string {
  const date = new Date(day);
  return dayAt(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later));
}

/** Returns whether the text is a valid date such as 2026-11-21. */
export const isDay = (text: string): boolean =>
  /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) && addDays(text, 0) === text;

export const NAMED_RANGES = {
  today: 'Today',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
  month: 'This month',
  'last-month': 'Last month',
} as const;
export type NamedRange = keyof typeof NAMED_RANGES;

export const isNamedRange = (text: string): text is NamedRange => Object.hasOwn(NAMED_RANGES, text);

/** Returns the days of a preset range. All except `last-month` include today. */
export function daysOf(range: NamedRange, today: string): Days {
  const to = addDays(today, 1);
  switch (range) {
    case 'today':
      return { from: today, to };
    case '7d':
      return { from: addDays(to, -7), to };
    case '30d':
      return { from: addDays(to, -30), to };
    case '90d':
      return { from: addDays(to, -90), to };
    case 'month':
      return { from: monthOf(today), to };
    case 'last-month':
      return { from: monthOf(today, -1), to: monthOf(today) };
  }
}

/**
 * Returns the period before `days`: the same number of days, or the same days of the previous month if `range` is a
 * month.
 */
export function daysBefore(days: Days, range: NamedRange | null): Days {
  if (range === 'last-month') return { from: monthOf(days.from, -1), to: days.from };
  if (range === 'month') {
    const from = monthOf(days.from, -1);
    const to = addDays(from, countDays(days));
    return { from, to: to < days.from ? to : days.from };
  }
  return { from: addDays(days.from, -countDays(days)), to: days.from };
}

/** Formats days, such as "24 Oct – 22 Nov 2026". */
export const daysText = ({ from, to }: Days): string =>
  utcDays(Date.parse(from), Date.parse(addDays(to, -1)));

/** Returns the current UTC day. Updates while the page is open. */
export const useToday = (): string => useHour().slice(0, 10);

/** Returns the current UTC hour, such as `2026-11-21T16:00:00Z`. */
export const useHour = (): string => useSyncExternalStore(everyHalfMinute, hour);

const hour = (): string => `${new Date().toISOString().slice(0, 13)}:00:00Z`;

function everyHalfMinute(look: () => void): () => void {
  const timer = setInterval(look, 30_000);
  return () => clearInterval(timer);
}
