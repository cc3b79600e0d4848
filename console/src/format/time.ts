const DATE_TIME = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const RELATIVE = new Intl.RelativeTimeFormat(undefined, { style: 'short' });
/** "Yesterday" and "tomorrow" read well; "last mo." does not. */
const RELATIVE_DAY = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });

/** Formats a time in the user's time zone, to the minute. `at` is ISO 8601. */
export const dateTime = (at: string): string => DATE_TIME.format(new Date(at));

/** Formats a time in the user's time zone, to the second. */
export const exactTime = (at: string): string => EXACT.format(new Date(at));

const LOG = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
});

/** Formats a recent time for a log: no year, to the second. */
export const logTime = (at: string): string => LOG.format(new Date(at));

const LOCAL = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
});

/** Formats a time in the user's time zone for places where days are in UTC, such as `1 Dec, 01:00 local time`. */
export const localTime = (at: string): string => `${LOCAL.format(new Date(at))} local time`;

/** Formats a time in UTC, such as `2026-11-21 16:00:00 UTC`. */
export const utc = (at: string): string => `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

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
    if (Math.abs(seconds) >= length) {
      return (unit === 'day' ? RELATIVE_DAY : RELATIVE).format(Math.trunc(seconds / length), unit);
    }
  }
  return seconds > 1 ? 'in less than a minute' : 'just now';
}

/** Formats a duration in a suitable unit: `840 ms`, `3.20 s`, `4 min 10 s`, `2 h 5 min`. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}
