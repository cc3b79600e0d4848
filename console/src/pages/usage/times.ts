import { endOf } from './buckets.ts';

const UTC = 'UTC';
const DAY_TICK = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: UTC });
const DAY = new Intl.DateTimeFormat(undefined, {
  weekday: 'short',
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  timeZone: UTC,
});
const HOUR_TICK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', timeZone: UTC });
const HOUR = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  timeZone: UTC,
});

/** Returns a brief formatter of UTC hours or days; `time` in Unix seconds. */
export const tickOf = (unit: 'hour' | 'day') => (time: number) =>
  (unit === 'hour' ? HOUR_TICK : DAY_TICK).format(time * 1000);

/** Returns a full formatter of UTC hours or days; `time` in Unix seconds. */
export const timeOf = (unit: 'hour' | 'day') => (time: number) =>
  unit === 'hour'
    ? `${HOUR.formatRange(time * 1000, endOf(time, unit) * 1000)} UTC`
    : DAY.format(time * 1000);
