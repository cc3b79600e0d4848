import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Prefill, totalProgress } from '../../src/routing/prefill.ts';

function prefill(cachedTokens: number, doneTokens: number, nowMs: number): Prefill {
  const progress = new Prefill(1000, cachedTokens);
  progress.report({ type: 'prefill', promptTokens: 1000, doneTokens }, nowMs);
  return progress;
}

test('the time that a prompt needs is estimated from what was computed, without what was cached', () => {
  assert.equal(prefill(500, 600, 3000).leftMs, 8000);
  assert.equal(prefill(0, 1000, 3000).leftMs, 0);
  assert.equal(prefill(600, 600, 3000).leftMs, null);
});

test('several prompts take as long as the slowest', () => {
  const prompts = [prefill(500, 600, 3000), prefill(0, 500, 3000), prefill(600, 600, 3000)];
  assert.deepEqual(totalProgress(prompts), { promptTokens: 3000, doneTokens: 1700, leftMs: 8000 });
  assert.equal(totalProgress([]), null);
});
