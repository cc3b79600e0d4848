import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rateOf, withSample, type Sample } from '../../console/src/pages/models/rate.ts';

function samplesOf(...samples: readonly (readonly [atMs: number, bytes: number])[]): readonly Sample[] {
  return samples.reduce<readonly Sample[]>((all, [atMs, bytes]) => withSample(all, { atMs, bytes }), []);
}

test('a rate needs about one second of samples', () => {
  assert.equal(rateOf([]), null);
  assert.equal(rateOf(samplesOf([0, 100])), null);
  assert.equal(rateOf(samplesOf([0, 100], [500, 600])), null);
  assert.equal(rateOf(samplesOf([0, 100], [1000, 2100])), 2000);
});

test('the rate covers the last ten seconds', () => {
  const all = Array.from(
    { length: 31 },
    (_, second) => [second * 1000, second < 20 ? 0 : (second - 20) * 50] as const,
  );
  assert.equal(rateOf(samplesOf(...all)), 50);
});

test('a restarted download resets the rate', () => {
  assert.equal(rateOf(samplesOf([0, 5000], [1000, 6000], [2000, 10])), null);
  assert.equal(rateOf(samplesOf([0, 5000], [1000, 6000], [2000, 10], [3000, 20])), 10);
});

test('a stalled download has a rate of 0', () => {
  assert.equal(rateOf(samplesOf([0, 70], [1000, 70], [2000, 70])), 0);
});
