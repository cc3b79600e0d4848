import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReplicaHealth } from '../../src/engine/engine.ts';
import { HealthHistory } from '../../src/replicas/replica-report.ts';

const health = (completionTokens: number | null): ReplicaHealth => ({
  slots: 1,
  slotsInUse: 1,
  queued: 0,
  lastStepAgeMs: null,
  promptTokens: 0,
  cachedTokens: 0,
  completionTokens,
  memoryBytes: null,
});

test('the speed covers the last five seconds, or the time between the last two samples if that is longer', () => {
  const history = new HealthHistory();
  assert.deepEqual([history.last, history.tokensPerSecond], [null, null]);
  for (let second = 0; second <= 20; second++) {
    // 10 tokens a second for ten seconds, then 100.
    history.add(health(second <= 10 ? second * 10 : 100 + (second - 10) * 100), second * 1000);
    if (second === 0) assert.equal(history.tokensPerSecond, null, 'no speed from one sample');
    if (second === 7) assert.equal(history.tokensPerSecond, 10);
    if (second === 12) assert.equal(history.tokensPerSecond, (3 * 10 + 2 * 100) / 5);
  }
  assert.equal(history.tokensPerSecond, 100);
  history.add(health(1100 + 900), 29_000);
  history.add(health(1100 + 1800), 38_000);
  assert.equal(history.tokensPerSecond, 100);
  assert.equal(history.last?.completionTokens, 2900);
});

test('the speed is unknown after the replica was down, or if it does not report its token count', () => {
  const history = new HealthHistory();
  history.add(health(5), 0);
  history.add(health(10), 1000);
  history.clear();
  assert.deepEqual([history.last, history.tokensPerSecond], [null, null]);
  history.add(health(null), 2000);
  history.add(health(null), 3000);
  assert.equal(history.tokensPerSecond, null);
});
