import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { Counter, exposeSamples, Histogram } from '../../src/metrics/series.ts';
import { parseExposition, total } from './exposition.ts';

const COUNTER = { name: 'events_total', type: 'counter', help: 'Events.', labels: ['a', 'b'] } as const;
const TIMES = {
  name: 'seconds',
  type: 'histogram',
  help: 'Times.',
  labels: ['a'],
  buckets: [0.5, 1, 4],
} as const;

test('every combination of label values is one series, with any characters', () => {
  const text = fc.string({ unit: fc.constantFrom('a', '"', '\\', '\n', 'é', '{', '}', ',', '=', 'n') });
  fc.assert(
    fc.property(
      fc.array(fc.tuple(text, text, fc.integer({ min: 0, max: 9 })), { maxLength: 30 }),
      (events) => {
        const counter = new Counter(COUNTER);
        const expected = new Map<string, number>();
        for (const [a, b, count] of events) {
          counter.add(count, a, b);
          const key = JSON.stringify({ a, b });
          expected.set(key, (expected.get(key) ?? 0) + count);
        }
        const samples = parseExposition(counter.expose()).get(COUNTER.name)?.samples ?? [];
        assert.deepEqual(
          new Map(samples.map(({ labels, value }) => [JSON.stringify(labels), value])),
          expected,
        );
      },
    ),
  );
});

test('the buckets of a histogram are cumulative and include their upper bound', () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom<number[]>(0, 0.25, 0.5, 0.75, 1, 2, 4, 4.5, 100)), (values) => {
      const histogram = new Histogram(TIMES);
      for (const value of values) histogram.observe(value, 'x');
      const exposed = parseExposition(histogram.expose());
      for (const bound of [...TIMES.buckets, Infinity]) {
        const le = bound === Infinity ? '+Inf' : String(bound);
        const within = values.filter((value) => value <= bound).length;
        assert.equal(total(exposed, 'seconds_bucket', { le }), within);
      }
      assert.equal(total(exposed, 'seconds_count'), values.length);
      assert.equal(
        total(exposed, 'seconds_sum'),
        values.reduce((sum, value) => sum + value, 0),
      );
    }),
  );
});

test('combinations of label values beyond 500 are counted together', () => {
  const counter = new Counter(COUNTER);
  for (let index = 0; index < 700; index++) counter.add(1, `a${index}`, 'b');
  counter.add(1, 'a0', 'b');
  counter.add(1, 'a699', 'b');
  const exposed = parseExposition(counter.expose());
  assert.equal(exposed.get(COUNTER.name)?.samples.length, 501);
  assert.equal(total(exposed, COUNTER.name, { a: 'other', b: 'other' }), 201);
  assert.equal(total(exposed, COUNTER.name, { a: 'a0' }), 2);
});

test('values that are read at the scrape have labels, and line breaks and quotes are escaped', () => {
  const metric = { name: 'depth', type: 'gauge', help: 'A\nB\\C', labels: ['a'] } as const;
  assert.equal(
    exposeSamples(metric, [[['x"\n\\'], 1.5]]),
    '# HELP depth A\\nB\\\\C\n# TYPE depth gauge\ndepth{a="x\\"\\n\\\\"} 1.5\n',
  );
});
