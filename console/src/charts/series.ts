export interface Series {
  label: string;
  /** One value per time; null: no data. */
  values: readonly (number | null)[];
  /** `bar`s are stacked, the first series at the bottom; `area` is a line with a filled area. */
  shape: 'bar' | 'line' | 'area';
  /** Series color of the theme, 1 to 10. */
  color: number;
  /** A dashed gray line, for the previous period. */
  faint?: boolean;
  /** A thin line in the color of another line, such as the p95 next to the p50. */
  tail?: boolean;
  /**
   * Zeros of the line are not drawn, so that a series of rare events, such as errors, is invisible while there are
   * none.
   */
  sparse?: boolean;
}

/** A series with stacked values, as painted. */
interface Painted {
  series: Series;
  /** Values including the bars below. */
  values: (number | null)[];
}

/**
 * Returns the series in painting order. A bar includes the bars below it, so the highest bars are painted first; then
 * faint lines, then other lines.
 */
export function painted(series: readonly Series[]): Painted[] {
  const bars: Painted[] = [];
  const lines: Painted[] = [];
  let below: readonly number[] = [];
  for (const one of series) {
    if (one.shape !== 'bar')
      lines.push({ series: one, values: one.sparse ? withoutZeros(one.values) : [...one.values] });
    else {
      const values = one.values.map((value, index) => (value ?? 0) + (below[index] ?? 0));
      bars.unshift({ series: one, values });
      below = values;
    }
  }
  lines.sort((a, b) => Number(b.series.faint ?? false) - Number(a.series.faint ?? false));
  return [...bars, ...lines];
}

/** Marks the text of a period that has not ended yet. */
export const timeText = (text: string, isPartial: boolean): string => (isPartial ? `${text}, so far` : text);

/** Removes zeros, except those next to other values: the line still starts and ends at the axis. */
const withoutZeros = (values: Series['values']): (number | null)[] =>
  values.map((value, at) => (value === 0 && !values[at - 1] && !values[at + 1] ? null : value));

export const isAboveZero = (series: readonly Series[]): boolean =>
  series.some(({ values }) => values.some((value) => value !== null && value > 0));

export const isMeasured = (series: readonly Series[]): boolean =>
  series.some(({ values }) => values.some((value) => value !== null));

/** Returns the indexes of values without neighbors, which need a dot because a line through one point is invisible. */
export function isolated(values: ArrayLike<number | null | undefined>): number[] {
  const indexes: number[] = [];
  for (let at = 0; at < values.length; at++) {
    if (values[at] != null && values[at - 1] == null && values[at + 1] == null) indexes.push(at);
  }
  return indexes;
}
