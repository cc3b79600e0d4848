import { DATES } from './locale.ts';

/** The user's choice of 12 or 24 hours, which does not depend on the language. */
const { hourCycle } = new Intl.DateTimeFormat(undefined, { hour: 'numeric' }).resolvedOptions();

const formats = (options: Intl.DateTimeFormatOptions) =>
  new Intl.DateTimeFormat(DATES, { ...options, hourCycle });

const MINUTES = { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' } as const;
const UTC = { timeZone: 'UTC' } as const;

const DATE_TIME = formats({ dateStyle: 'medium', timeStyle: 'short' });
const EXACT = formats({ dateStyle: 'medium', timeStyle: 'medium' });
const LOG = formats({ ...MINUTES, second: '2-digit' });
const LOCAL = formats(MINUTES);
const CLOCK = formats({ timeStyle: 'medium' });
const RELATIVE = new Intl.RelativeTimeFormat(DATES, { style: 'short' });
/** "Yesterday" and "tomorrow" read well; "last mo." does not. */
const RELATIVE_DAY = new Intl.RelativeTimeFormat(DATES, { numeric: 'auto', style: 'short' });

/** Formats a time in the user's time zone, to the minute. `at` is ISO 8601. */
export const dateTime = (at: string): string => DATE_TIME.format(new Date(at));

/** Formats a time in the user's time zone, to the second. */
export const exactTime = (at: string): string => EXACT.format(new Date(at));

/** Formats a recent time for a log: no year, to the second. */
export const logTime = (at: string): string => LOG.format(new Date(at));

/** Formats a time in the user's time zone, such as `1 Dec, 01:00 local time`, for text that otherwise uses UTC. */
export const localTime = (at: string): string => `${LOCAL.format(new Date(at))} local time`;

/** Formats a range of times in the user's time zone, to the minute; null: open. */
export function localRange(from: string | null, to: string | null): string {
  if (from !== null && to !== null) return LOCAL.formatRange(new Date(from), new Date(to));
  if (from !== null) return `From ${LOCAL.format(new Date(from))}`;
  return to === null ? 'Any time' : `Until ${LOCAL.format(new Date(to))}`;
}

/** Formats a time in Unix milliseconds as time of day in the user's time zone, to the second. */
export const clock = (atMs: number): string => CLOCK.format(atMs);

/** Formats a time in UTC, such as `2026-11-21 16:00:00 UTC`. */
export const utc = (at: string): string => `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

const DAY = formats({ day: 'numeric', month: 'short', year: 'numeric', ...UTC });
const MONTH = formats({ month: 'long', year: 'numeric', ...UTC });
const LONG_DAY = formats({ weekday: 'short', day: 'numeric', month: 'short', year: 'numeric', ...UTC });
const DAY_TICK = formats({ day: 'numeric', month: 'short', ...UTC });
const HOUR = formats({ ...MINUTES, ...UTC });
const HOUR_TICK = formats({ hour: '2-digit', minute: '2-digit', ...UTC });
const HOUR_MS = 3_600_000;

/** Formats UTC days, such as `24 Oct – 22 Nov 2026`; both are included. */
export const utcDays = (firstMs: number, lastMs: number): string => DAY.formatRange(firstMs, lastMs);

/** Formats the month of a UTC day, such as `November 2026`. */
export const utcMonth = (day: string): string => MONTH.format(Date.parse(day));

/** Returns a formatter of UTC hours or days for an axis; `time` in Unix seconds. */
export const utcTick = (length: 'hour' | 'day') => (time: number) =>
  (length === 'hour' ? HOUR_TICK : DAY_TICK).format(time * 1000);

/** Returns a formatter of UTC hours or days, such as `Sun 22 Nov 2026 UTC`; `time` in Unix seconds. */
export const utcSpan = (length: 'hour' | 'day') => (time: number) => {
  const ms = time * 1000;
  return `${length === 'hour' ? HOUR.formatRange(ms, ms + HOUR_MS) : LONG_DAY.format(ms)} UTC`;
};

const STEPS = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const;

/** Formats a time relative to `nowMs`, such as "3 min ago" or "in 2 days". */
export function ago(at: string, nowMs: number): string {
  const seconds = (Date.parse(at) - nowMs) / 1000;
  for (const [unit, length] of STEPS) {
    if (Math.abs(seconds) < length) continue;
    // "Yesterday" is a day of the calendar, which 25 to 47 hours ago may not be.
    if (unit === 'day') return RELATIVE_DAY.format(localDay(Date.parse(at)) - localDay(nowMs), unit);
    return RELATIVE.format(Math.trunc(seconds / length), unit);
  }
  return seconds > 1 ? 'in less than a minute' : 'just now';
}

/** Returns the number of a day in the user's time zone; the days of a year have consecutive numbers. */
function localDay(ms: number): number {
  const at = new Date(ms);
  return Date.UTC(at.getFullYear(), at.getMonth(), at.getDate()) / 86_400_000;
}

/** Formats how long ago a time was: `just now`, `8 s ago`, `3 min ago`. */
export function secondsAgo(atMs: number, nowMs: number): string {
  const seconds = Math.floor((nowMs - atMs) / 1000);
  if (seconds < 2) return 'just now';
  return seconds < 60 ? `${seconds} s ago` : ago(new Date(atMs).toISOString(), nowMs);
}

/** Formats a duration in a suitable unit: `0.4 ms`, `840 ms`, `3.20 s`, `41.5 s`, `4 min 10 s`, `2 h 5 min`. */
export function duration(ms: number): string {
  if (ms < 9.95) return `${Number(ms.toFixed(1))} ms`;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  if (ms < 9995) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Formats a remaining time in whole seconds, rounded up. */
export function wait(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
}

/** Returns the milliseconds between two times; null: one of them is unknown. */
export const between = (from: string | null, to: string | null): number | null =>
  from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from));
