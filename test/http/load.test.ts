import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Load, type Ended } from '../../src/http/load.ts';

const ENDED: Ended = { failed: false, promptTokens: 10, completionTokens: 5, ttftMs: null };

test('seconds that are over are told, the oldest first, each with what ended in it', () => {
  let now = 1_800_000_000_500;
  const load = new Load(() => now);
  for (const ttftMs of [30, 10, 20]) load.ended({ ...ENDED, ttftMs });
  load.ended({ ...ENDED, failed: true });
  assert.equal(load.lastSeconds().at(-1)?.requests, 0, 'this second is not over');
  now += 1000;
  load.ended({ ...ENDED, ttftMs: 7 });
  const told = load.lastSeconds();
  assert.equal(told.length, 300);
  assert.deepEqual(told.at(-1), {
    atMs: 1_800_000_000_000,
    requests: 4,
    errors: 1,
    promptTokens: 40,
    completionTokens: 20,
    ttftMs: 20,
  });
  const [first, second] = told;
  assert.deepEqual([first?.atMs, (second?.atMs ?? 0) - (first?.atMs ?? 0)], [1_799_999_701_000, 1000]);
  assert.deepEqual([first?.requests, first?.ttftMs], [0, null]);
});

test('a second is forgotten after five minutes, and not taken for the one that has its place', () => {
  let now = 1_800_000_000_000;
  const load = new Load(() => now);
  load.ended(ENDED);
  const requests = () => load.lastSeconds().reduce((sum, second) => sum + second.requests, 0);
  now += 300_000;
  assert.deepEqual([requests(), load.lastSeconds()[0]?.requests], [1, 1]);
  now += 1000;
  assert.equal(requests(), 0);
  load.ended(ENDED);
  load.ended(ENDED);
  now += 1000;
  assert.equal(requests(), 2);
});

test('the median of a busy second is that of its newest answers', () => {
  let now = 1_800_000_000_000;
  const load = new Load(() => now);
  for (let index = 0; index < 1000; index++) load.ended({ ...ENDED, ttftMs: index < 900 ? 1000 : 50 });
  now += 1000;
  assert.equal(load.lastSeconds().at(-1)?.ttftMs, 50);
});
