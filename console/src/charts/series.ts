/** Numbers over time that are drawn together. */
export interface Series {
  label: string;
  /** One for each time; null: nothing was measured. */
  values: readonly (number | null)[];
  /** `bar`s of several series stand on each other, the first at the bottom; `area` is a line with its ground filled. */
  shape: 'bar' | 'line' | 'area';
  /** One of the six colours of the theme, 1 to 6. */
  colour: number;
  /** Drawn faint: what the others are compared with. */
  faint?: boolean;
}

/** A series as it is painted. */
interface Painted {
  series: Series;
  /** Heights above the ground. */
  values: (number | null)[];
}

/**
 * The series in the order in which they are painted. A bar is as high as all below it and itself, and the highest
 * are painted first; lines come above all bars, those that are faint before the others.
 */
export function painted(series: readonly Series[]): Painted[] {
  const bars: Painted[] = [];
  const lines: Painted[] = [];
  let below: readonly number[] = [];
  for (const one of series) {
    if (one.shape !== 'bar') lines.push({ series: one, values: [...one.values] });
    else {
      const values = one.values.map((value, index) => (value ?? 0) + (below[index] ?? 0));
      bars.unshift({ series: one, values });
      below = values;
    }
  }
  lines.sort((a, b) => Number(b.series.faint ?? false) - Number(a.series.faint ?? false));
  return [...bars, ...lines];
}

/** Whether there is anything to draw. */
export const isMeasured = (series: readonly Series[]): boolean =>
  series.some(({ values }) => values.some((value) => value !== null));

/** Places that have a value, and none beside them: a line through one point cannot be seen. */
export function lonely(values: ArrayLike<number | null | undefined>): number[] {
  const places: number[] = [];
  for (let at = 0; at < values.length; at++) {
    if (values[at] != null && values[at - 1] == null && values[at + 1] == null) places.push(at);
  }
  return places;
}
