import { DatabaseSync } from 'node:sqlite';
import { bucketSql } from '../../src/accounts/ledger/histogram.ts';

const bucket = new DatabaseSync(':memory:').prepare(`select ${bucketSql('?1')} as bucket`);

/** Returns the bucket of a value in a histogram of latencies. */
export function bucketOf(value: number): number {
  return Number(bucket.get(value)?.['bucket']);
}
