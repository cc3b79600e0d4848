import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { RetryBudget } from '../../src/routing/served-model.ts';
import { WindowCount } from '../../src/routing/breaker.ts';

/** Takes retries until one is refused. Returns how many were taken. */
function takeAll(budget: RetryBudget, nowMs: number): number {
  for (let taken = 0; ; taken++) if (!budget.take(nowMs)) return taken;
}

test('a few retries a minute are always allowed', () => {
  const budget = new RetryBudget({ share: 0.2, minPerMinute: 10 });
  assert.equal(takeAll(budget, 0), 10);
  assert.equal(takeAll(budget, 30_000), 0);
  assert.equal(takeAll(budget, 70_000), 10);
});

test('with more requests, a share of them may be retried', () => {
  const budget = new RetryBudget({ share: 0.2, minPerMinute: 10 });
  for (let request = 0; request < 1000; request++) budget.addRequest(request);
  assert.equal(takeAll(budget, 1000), 200);
});

test('no retries are allowed if both limits are 0', () => {
  const budget = new RetryBudget({ share: 0, minPerMinute: 0 });
  budget.addRequest(0);
  assert.equal(takeAll(budget, 0), 0);
});

test('a window counts every event of its last five sixths, and none that is older than the window', () => {
  const steps = fc.array(fc.nat(30_000), { minLength: 1, maxLength: 50 });
  fc.assert(
    fc.property(steps, (gaps) => {
      const count = new WindowCount(60_000);
      const times: number[] = [];
      let nowMs = 0;
      for (const gap of gaps) {
        nowMs += gap;
        count.add(nowMs);
        times.push(nowMs);
        const within = (ms: number) => times.filter((time) => time > nowMs - ms).length;
        const total = count.total(nowMs);
        assert.ok(total >= within(50_000) && total <= within(60_000 + 1), `${total} at ${nowMs}`);
      }
    }),
  );
});
