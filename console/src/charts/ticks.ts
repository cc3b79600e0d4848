const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

/** Steps between the times at an axis that people count in, in seconds. */
const STEPS = [
  [1, 5, 10, 15, 30],
  [1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  [1, 2, 3, 4, 6, 12].map((hours) => hours * HOUR),
  [1, 2, 3, 7, 14, 28, 56].map((days) => days * DAY),
].flat();

/**
 * Places of the times that are written below a chart: as many as have room, at steps that people count in. Hours and
 * less are counted from midnight UTC, days from the first. `times` are Unix seconds, evenly apart; `most` is 1 or more.
 */
export function ticks(times: readonly number[], most: number): number[] {
  const [first = 0, second = first + 1] = times;
  const apart = second - first;
  const span = apart * times.length;
  const step = STEPS.find((seconds) => seconds >= apart && span / seconds <= most) ?? Math.ceil(span / most);
  const start = step < DAY ? 0 : first;
  const at = times.flatMap((time, place) => ((time - start) % step === 0 ? [place] : []));
  // Of times that meet no such step, such as a lone one.
  return at.length > 0 ? at : times.length > 0 ? [0] : [];
}
