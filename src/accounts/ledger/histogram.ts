/**
 * Histograms with logarithmic buckets, as in DDSketch (https://arxiv.org/abs/1908.10693). Adding the counts of
 * two histograms merges them, and every value is within `ERROR` of the value of its bucket.
 */

/** Largest relative error of a percentile. A little below 2%, so that it is at most 2% despite rounding. */
const ERROR = 0.0199;
const LOG_GAMMA = Math.log((1 + ERROR) / (1 - ERROR));

/** Lower values count as this one. */
const LEAST = 0.001;

/** Returns SQL for the bucket of a value, such as milliseconds or tokens per second. Negative for values below 1. */
export function bucketSql(value: string): string {
  const real = `cast(${value} as double precision)`;
  const bounded = `case when ${real} < ${LEAST} then ${LEAST} else ${real} end`;
  return `cast(ceil(ln(${bounded}) / ${LOG_GAMMA}) as integer)`;
}

/** Returns the representative value of a bucket; the values in it differ from that by at most 2%. */
export function valueOf(bucket: number): number {
  return Math.exp(bucket * LOG_GAMMA) * (1 - ERROR);
}

export interface BucketCount {
  bucket: number;
  count: number;
}

/**
 * Returns the percentile at `share` (0.5 is the median) by nearest rank, at most 2% off, or null if there are no
 * values. `ascending` is sorted by bucket and may repeat buckets.
 */
export function percentile(ascending: readonly BucketCount[], share: number): number | null {
  const total = ascending.reduce((sum, { count }) => sum + count, 0);
  if (total === 0) return null;
  let left = Math.max(1, Math.ceil(share * total));
  for (const { bucket, count } of ascending) {
    left -= count;
    if (left <= 0) return valueOf(bucket);
  }
  return null;
}
