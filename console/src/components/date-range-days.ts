/** Days of UTC as ISO dates, which is how the service counts them: from the first up to, without, the second. */
export interface Days {
  from: string;
  to: string;
}

const DAY_MS = 86_400_000;

/** The day of a moment, in UTC. */
export const dayAt = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** A day so many days later, or earlier where it is below 0. */
export const addDays = (day: string, days: number): string => dayAt(Date.parse(day) + days * DAY_MS);

/** How many days there are. */
export const countDays = ({ from, to }: Days): number => (Date.parse(to) - Date.parse(from)) / DAY_MS;

/** The first day of the month that is so many months later than that of a day. */
export function monthOf(day: string, later = 0): string {
  const date = new Date(day);
  return dayAt(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later));
}

/** Whether it is a day such as 2026-11-21, and there is one. */
export const isDay = (text: string): boolean =>
  /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)) && addDays(text, 0) === text;

/** Ranges that have a name. */
export const NAMED_RANGES = {
  today: 'Today',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  '90d': 'Last 90 days',
  month: 'This month',
  'last-month': 'Last month',
} as const;
export type NamedRange = keyof typeof NAMED_RANGES;

/** Whether a text is the name of one. */
export const isNamedRange = (text: string): text is NamedRange => Object.hasOwn(NAMED_RANGES, text);

/** The days of a named range, today among them where it is not over. */
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

/** As many days right before; of a month those of the month before, as far as both have come. */
export function daysBefore(days: Days, range: NamedRange | null): Days {
  if (range === 'last-month') return { from: monthOf(days.from, -1), to: days.from };
  if (range === 'month') {
    const from = monthOf(days.from, -1);
    const to = addDays(from, countDays(days));
    return { from, to: to < days.from ? to : days.from };
  }
  return { from: addDays(days.from, -countDays(days)), to: days.from };
}

const DAY = new Intl.DateTimeFormat(undefined, {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  timeZone: 'UTC',
});

/** Days as people write them, such as "24 Oct – 22 Nov 2026". */
export const daysText = ({ from, to }: Days): string =>
  DAY.formatRange(Date.parse(from), Date.parse(addDays(to, -1)));
