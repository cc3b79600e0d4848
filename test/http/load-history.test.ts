import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LoadHistory, type GenerationSummary } from '../../src/http/load-history.ts';

const ENDED: GenerationSummary = { failed: false, promptTokens: 10, completionTokens: 5, ttftMs: null };

test('the history lists full seconds, oldest first, with the requests that ended in each', () => {
  let now = 1_800_000_000_500;
  const load = new LoadHistory(() => now);
  for (const ttftMs of [30, 10, 20]) load.record({ ...ENDED, ttftMs });
  load.record({ ...ENDED, failed: true });
  assert.equal(load.lastSeconds().at(-1)?.requests, 0, 'the current second is not full');
  now += 1000;
  load.record({ ...ENDED, ttftMs: 7 });
  const seconds = load.lastSeconds();
  assert.equal(seconds.length, 300);
  assert.deepEqual(seconds.at(-1), {
    atMs: 1_800_000_000_000,
    requests: 4,
    errors: 1,
    promptTokens: 40,
    completionTokens: 20,
    ttftMs: { p50: 20, p95: 30 },
  });
  const [first, second] = seconds;
  assert.deepEqual([first?.atMs, (second?.atMs ?? 0) - (first?.atMs ?? 0)], [1_799_999_701_000, 1000]);
  assert.deepEqual([first?.requests, first?.ttftMs], [0, null]);
});

test('the counts of a second are dropped after five minutes, and their place is reused', () => {
  let now = 1_800_000_000_000;
  const load = new LoadHistory(() => now);
  load.record(ENDED);
  const requests = () => load.lastSeconds().reduce((sum, second) => sum + second.requests, 0);
  now += 300_000;
  assert.deepEqual([requests(), load.lastSeconds()[0]?.requests], [1, 1]);
  now += 1000;
  assert.equal(requests(), 0);
  load.record(ENDED);
  load.record(ENDED);
  now += 1000;
  assert.equal(requests(), 2);
});

test('percentiles cover ten seconds, so that a single request does not make them jump', () => {
  let now = 1_800_000_000_000;
  const load = new LoadHistory(() => now);
  for (let second = 1; second <= 20; second++) {
    load.record({ ...ENDED, ttftMs: 10 * second });
    now += 1000;
  }
  const ofLast = (count: number) =>
    load
      .lastSeconds()
      .slice(-count)
      .map(({ ttftMs }) => ttftMs);
  assert.deepEqual(ofLast(2), [
    { p50: 140, p95: 190 },
    { p50: 150, p95: 200 },
  ]);
  now += 9000;
  assert.deepEqual(ofLast(1), [{ p50: 200, p95: 200 }]);
  now += 1000;
  assert.deepEqual(ofLast(2), [{ p50: 200, p95: 200 }, null]);
});

test('the percentiles of the oldest listed second also cover ten seconds', () => {
  let now = 1_800_000_000_000;
  const load = new LoadHistory(() => now);
  load.record({ ...ENDED, ttftMs: 30 });
  now += 309_000;
  assert.deepEqual(load.lastSeconds()[0]?.ttftMs, { p50: 30, p95: 30 });
});

test('the percentiles of a busy second are those of its latest requests', () => {
  let now = 1_800_000_000_000;
  const load = new LoadHistory(() => now);
  for (let index = 0; index < 1000; index++) load.record({ ...ENDED, ttftMs: index < 900 ? 1000 : 50 });
  now += 1000;
  assert.deepEqual(load.lastSeconds().at(-1)?.ttftMs, { p50: 50, p95: 50 });
});
