import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isMeasured, isolated, painted, type Series } from '../../console/src/charts/series.ts';
import { ticks } from '../../console/src/charts/ticks.ts';

const HOUR = 3600;
const DAY = 86_400;
/** Midnight UTC. */
const MIDNIGHT = Date.parse('2026-11-21T00:00:00Z') / 1000;

const series = (label: string, shape: Series['shape'], values: (number | null)[], faint = false): Series => ({
  label,
  shape,
  values,
  faint,
  color: 1,
});

describe('series', () => {
  test('bars are stacked, and the highest is painted first', () => {
    const all = painted([
      series('bottom', 'bar', [1, null, 3]),
      series('middle', 'bar', [10, 20, 30]),
      series('top', 'bar', [100, 200, null]),
    ]);
    assert.deepEqual(
      all.map(({ series: { label }, values }) => [label, values]),
      [
        ['top', [111, 220, 33]],
        ['middle', [11, 20, 33]],
        ['bottom', [1, 0, 3]],
      ],
    );
  });

  test('lines are painted above bars, the faint ones first, and keep their gaps', () => {
    const all = painted([
      series('line', 'line', [1, null]),
      series('before', 'line', [2, 3], true),
      series('bar', 'bar', [4, 5]),
    ]);
    assert.deepEqual(
      all.map(({ series: { label }, values }) => [label, values]),
      [
        ['bar', [4, 5]],
        ['before', [2, 3]],
        ['line', [1, null]],
      ],
    );
  });

  test('finds points without neighbors, which a line does not show', () => {
    assert.deepEqual(isolated([1, null, 2, 3, null, 4]), [0, 5]);
    assert.deepEqual(isolated([7]), [0]);
    assert.deepEqual(isolated([]), []);
    assert.deepEqual(isolated([null, null]), []);
  });

  test('detects charts without data', () => {
    assert.equal(isMeasured([]), false);
    assert.equal(isMeasured([series('a', 'line', [null, null])]), false);
    assert.equal(isMeasured([series('a', 'line', [null, 0])]), true);
  });
});

describe('ticks', () => {
  const every = (apart: number, count: number) =>
    Array.from({ length: count }, (_, index) => MIDNIGHT + index * apart);

  test('hours are labeled at round intervals', () => {
    assert.deepEqual(ticks(every(HOUR, 24), 8), [0, 3, 6, 9, 12, 15, 18, 21]);
    assert.deepEqual(ticks(every(HOUR, 24), 5), [0, 6, 12, 18]);
  });

  test('days are labeled from the first one, and all of them if there is room', () => {
    assert.deepEqual(ticks(every(DAY, 7), 12), [0, 1, 2, 3, 4, 5, 6]);
    assert.deepEqual(ticks(every(DAY, 30), 6), [0, 7, 14, 21, 28]);
  });

  test('a sliding window of seconds keeps its ticks at the same times', () => {
    const times = every(1, 300).map((time) => time + 17);
    const at = ticks(times, 6);
    assert.ok(at.length > 0);
    for (const place of at) assert.equal((times[place] ?? 0) % 60, 0);
  });

  test('there are never more ticks than fit, and one tick for a single time', () => {
    for (const apart of [1, HOUR, DAY]) {
      for (const count of [1, 2, 24, 90, 366, 4000]) {
        for (const most of [1, 3, 12]) {
          const found = ticks(every(apart, count), most);
          assert.ok(found.length > 0 && found.length <= most + 1, `${count} of ${apart} s: ${found.length}`);
        }
      }
    }
    assert.deepEqual(ticks([MIDNIGHT + 12], 5), [0]);
    assert.deepEqual(ticks([], 5), []);
  });
});
