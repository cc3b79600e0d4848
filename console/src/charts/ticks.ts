const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

/** Round intervals between ticks, in seconds. */
const STEPS = [
  [1, 5, 10, 15, 30],
  [1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  [1, 2, 3, 4, 6, 12].map((hours) => hours * HOUR),
  [1, 2, 3, 7, 14, 28, 56].map((days) => days * DAY),
].flat();

/**
 * Returns the indexes of the times to label: at most `most`, at round intervals. Intervals of up to 12 hours are
 * aligned to midnight UTC; intervals of days start at `times[0]`. `times` are Unix seconds at even intervals; `most` is
 * at least 1.
 */
export function ticks(times: readonly number[], most: number): number[] {
  const [first = 0, second = first + 1] = times;
  const apart = second - first;
  const span = apart * times.length;
  const step = STEPS.find((seconds) => seconds >= apart && span / seconds <= most) ?? Math.ceil(span / most);
  const start = step < DAY ? 0 : first;
  const at = times.flatMap((time, index) => ((time - start) % step === 0 ? [index] : []));
  // Falls back to the first time if none is on a round interval, such as with a single time.
  return at.length > 0 ? at : times.length > 0 ? [0] : [];
}
