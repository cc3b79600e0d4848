import { sql, type RawBuilder } from 'kysely';

/**
 * Histograms with logarithmic buckets, as DDSketch has them (https://arxiv.org/abs/1908.10693): a bucket is known by
 * its index alone, histograms are added by adding their counts, and every value is within `ERROR` of what stands
 * for its bucket.
 */

/** Largest relative error of a percentile; a little below 2% so that rounding cannot carry a value over it. */
const ERROR = 0.0199;
const LOG_GAMMA = Math.log((1 + ERROR) / (1 - ERROR));

/** Values below and above these count as them. */
const LEAST = 0.001;
const MOST = 1e12;

/** Index of the bucket of a value, such as milliseconds or tokens a second: a whole number, negative below 1. */
export function bucketOf(value: number): number {
  return Math.ceil(Math.log(Math.min(Math.max(value, LEAST), MOST)) / LOG_GAMMA);
}

/** The same in SQL, of an expression that gives a number. */
export function bucketSql(value: RawBuilder<unknown>): RawBuilder<unknown> {
  const real = sql`cast(${value} as double precision)`;
  const bounded = sql`case when ${real} < ${sql.lit(LEAST)} then ${sql.lit(LEAST)} else ${real} end`;
  return sql`cast(ceil(ln(${bounded}) / ${sql.lit(LOG_GAMMA)}) as integer)`;
}

/** What stands for the values of a bucket: none of them is more than 2% away. */
export function valueOf(bucket: number): number {
  return Math.exp(bucket * LOG_GAMMA) * (1 - ERROR);
}

/** How many values fell into a bucket. */
export interface BucketCount {
  bucket: number;
  count: number;
}

/**
 * The value below which a share of all values lies (0.5: the median), by the nearest rank, at most 2% off; null
 * where there are none. `ascending` is sorted by bucket; a bucket may be there more than once.
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
