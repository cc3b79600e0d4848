const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/** Formats a time in Unix milliseconds as time of day, to the second. */
export const clock = (atMs: number): string => CLOCK.format(atMs);

/** Shown for values that are not reported, as opposed to 0. */
export const UNKNOWN = '—';
