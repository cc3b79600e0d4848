/** Clocks that tests can replace. */
export interface Clock {
  /** Unix milliseconds, for calendar periods and for times that users set. */
  now(): number;
  /** Milliseconds on a monotonic clock, for durations. */
  elapsed(): number;
}

export const SYSTEM_CLOCK: Clock = { now: () => Date.now(), elapsed: () => performance.now() };

/**
 * Returns the time in Unix milliseconds for deleting old rows, which cannot be restored. Ignores jumps ahead of the wall
 * clock: is at most the time at which this process started, plus the time that it has run.
 */
export function steadyNow(): number {
  return Math.min(Date.now(), performance.timeOrigin + performance.now());
}
