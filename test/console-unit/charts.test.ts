import assert from 'node:assert/strict';
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isAboveZero, isMeasured, isolated, painted, type Series } from '../../console/src/charts/series.ts';
import { ticks } from '../../console/src/charts/ticks.ts';
import { tickLabels, valueTicks, type Unit } from '../../console/src/charts/value-axis.ts';
import { ROOT } from '../docs/markdown.ts';

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

  test('isolated points, which a line does not show, are found', () => {
    assert.deepEqual(isolated([1, null, 2, 3, null, 4]), [0, 5]);
    assert.deepEqual(isolated([7]), [0]);
    assert.deepEqual(isolated([]), []);
    assert.deepEqual(isolated([null, null]), []);
  });

  test('zeros of a sparse line are not drawn, except next to other values', () => {
    const errors = { ...series('errors', 'line', [0, 0, 0, 2, 0, 0, null]), sparse: true };
    assert.deepEqual(painted([errors])[0]?.values, [null, null, 0, 2, 0, null, null]);
  });

  test('charts without data, or without values above zero, are detected', () => {
    assert.equal(isAboveZero([series('a', 'line', [null, 0])]), false);
    assert.equal(isAboveZero([series('a', 'line', [0]), series('b', 'bar', [0, 1])]), true);
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

describe('values at the axis', () => {
  const labels = (unit: Unit, top: number, most = 5) => tickLabels(unit, valueTicks(unit, top, most));

  test('are exact, in one unit and with the same number of decimals', () => {
    assert.deepEqual(labels('rate', 1.08), ['0.0', '0.2', '0.4', '0.6', '0.8', '1.0']);
    assert.deepEqual(labels('rate', 0.3), ['0.0', '0.1', '0.2', '0.3']);
    assert.deepEqual(labels('ms', 1.4), ['0.0 ms', '0.5 ms', '1.0 ms']);
    assert.deepEqual(labels('ms', 1900), ['0.0 s', '0.5 s', '1.0 s', '1.5 s']);
    assert.deepEqual(labels('ms', 70_000), ['0 s', '15 s', '30 s', '45 s', '60 s']);
    assert.deepEqual(labels('ms', 400_000), ['0 min', '2 min', '4 min', '6 min']);
    assert.deepEqual(labels('usd', 0.0011, 3), ['$0.0000', '$0.0005', '$0.0010']);
    assert.deepEqual(labels('usd', 1.7), ['$0.00', '$0.50', '$1.00', '$1.50']);
    assert.deepEqual(labels('count', 1_300_000, 3), ['0', '0.5M', '1.0M']);
    assert.deepEqual(labels('count', 30_000, 3), ['0', '10K', '20K', '30K']);
    assert.deepEqual(labels('count', 7000), ['0', '2,000', '4,000', '6,000']);
  });

  test('counts have no fractions', () => {
    assert.deepEqual(labels('count', 1.08), ['0', '1']);
    assert.deepEqual(labels('count', 3.2), ['0', '1', '2', '3']);
  });

  test('fit, do not repeat, and equal the values that they label', () => {
    const units: readonly Unit[] = ['count', 'rate', 'speed', 'usd', 'ms'];
    for (const unit of units) {
      for (let top = unit === 'count' ? 1 : 0.001; top < 3e8; top *= 1.37) {
        for (const most of [2, 3, 5]) {
          const ticks = valueTicks(unit, top, most);
          const texts = tickLabels(unit, ticks);
          const seen = `${unit} up to ${top}: ${texts.join(', ')}`;
          assert.equal(new Set(texts).size, texts.length, seen);
          assert.ok(ticks.length >= 2 && ticks.length <= Math.max(3, most + 1), seen);
          assert.ok((ticks.at(-1) ?? 0) <= top * (1 + 1e-8), seen);
          for (const [index, text] of texts.entries()) assertIs(text, ticks[index] ?? 0, seen);
        }
      }
    }
  });

  test('an axis of zeros has only the label 0', () => {
    assert.deepEqual(valueTicks('ms', 0, 5), [0]);
    assert.deepEqual(tickLabels('rate', [0]), ['0']);
  });

  const SIZES: Readonly<Record<string, number>> = {
    K: 1e3,
    M: 1e6,
    B: 1e9,
    s: 1e3,
    min: 60_000,
    h: 3_600_000,
  };

  function assertIs(text: string, value: number, seen: string): void {
    const [, digits = '', suffix = ''] = /^\$?([\d,.]+) ?(\w*)$/.exec(text) ?? [];
    const read = Number(digits.replaceAll(',', '')) * (SIZES[suffix] ?? 1);
    assert.ok(Math.abs(read - value) <= value * 1e-9, seen);
  }
});

test('colors of measures are set in one table', async () => {
  const source = join(ROOT, 'console', 'src');
  for await (const path of glob('{pages,components}/**/*.{ts,tsx}', { cwd: source })) {
    assert.doesNotMatch(await readFile(join(source, path), 'utf8'), /color: \d|series-\d/, path);
  }
});
