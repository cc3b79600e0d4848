import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { percentile, valueOf } from '../../../src/accounts/ledger/histogram.ts';
import { bucketOf } from '../../support/latency-buckets.ts';

const value = fc.double({ min: 0.001, max: 1e9, noNaN: true });

test('the value of a bucket is at most 2% off each value in it', () => {
  fc.assert(
    fc.property(value, (exact) => {
      assert.ok(Math.abs(valueOf(bucketOf(exact)) - exact) <= 0.02 * exact);
    }),
  );
});

test('a percentile is at most 2% off the exact one', () => {
  fc.assert(
    fc.property(
      fc.array(value, { minLength: 1, maxLength: 300 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (values, share) => {
        const counts = values
          .map((one) => ({ bucket: bucketOf(one), count: 1 }))
          .sort((a, b) => a.bucket - b.bucket);
        const sorted = values.toSorted((a, b) => a - b);
        const exact = sorted[Math.max(1, Math.ceil(share * values.length)) - 1] ?? NaN;
        const estimate = percentile(counts, share) ?? NaN;
        assert.ok(Math.abs(estimate - exact) <= 0.02 * exact, `${estimate} for ${exact}`);
      },
    ),
  );
});

test('values below the least one count as that', () => {
  assert.equal(bucketOf(0), bucketOf(0.001));
  assert.equal(bucketOf(-5), bucketOf(0.001));
});

test('the percentile of no values is null', () => {
  assert.equal(percentile([], 0.5), null);
});
