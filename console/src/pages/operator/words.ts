const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });

/** The time of day of a moment in Unix milliseconds, to the second. */
export const clock = (atMs: number): string => CLOCK.format(atMs);

/** A word for what is not told: it is not 0. */
export const NOT_TOLD = 'not told';
