import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { JobChoice } from '../../../src/engine/llama/job.ts';
import { Slot } from '../../../src/engine/llama/slots.ts';
import { ChunkSize, hasMorePrompts, planBatch, StepClock } from '../../../src/engine/llama/scheduler.ts';

function slots(pending: readonly number[]): Slot[] {
  return pending.map((count, id) => {
    const slot = new Slot(id, 1000);
    slot.filled = count;
    slot.lastUsed = id;
    // Only whether a choice is present matters. A slot without pending tokens is idle.
    if (count > 0) slot.choice = {} as JobChoice;
    return slot;
  });
}

const scheduled = (all: readonly Slot[]): number[] => all.map((slot) => slot.scheduled);

test('decoding slots get their token before prompts get the rest of the batch', () => {
  const all = slots([200, 1, 0, 1]);
  const batch: Slot[] = [];
  assert.equal(planBatch(all, batch, 128, 128), 128);
  assert.deepEqual(scheduled(all), [126, 1, 0, 1]);
});

test('the oldest prompt gets three quarters of the batch, and the shortest other prompts get the rest', () => {
  const all = slots([400, 300, 20]);
  assert.equal(planBatch(all, [], 128, 128), 128);
  assert.deepEqual(scheduled(all), [96, 12, 20]);
  for (const slot of all) slot.lastUsed = 9 - slot.lastUsed;
  assert.equal(planBatch(all, [], 128, 128), 128);
  assert.deepEqual(scheduled(all), [0, 108, 20], 'the others get what the first does not need');
});

test('the oldest prompt gets what the other prompts do not need', () => {
  const all = slots([400, 10]);
  assert.equal(planBatch(all, [], 128, 100), 100);
  assert.deepEqual(scheduled(all), [90, 10]);
});

test('a batch never exceeds its size, and no slot gets more tokens than it has pending', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constant(1), fc.nat(300)), { minLength: 1, maxLength: 32, size: 'max' }),
      fc.integer({ min: 32, max: 256 }),
      fc.integer({ min: 16, max: 256 }),
      (pending, batchTokens, prefillTokens) => {
        const all = slots(pending);
        const batch: Slot[] = [];
        const total = planBatch(all, batch, batchTokens, prefillTokens);
        assert.equal(
          total,
          all.reduce((sum, slot) => sum + slot.scheduled, 0),
        );
        assert(total <= batchTokens);
        assert(all.every((slot) => slot.scheduled <= slot.pending));
        assert(batch.every((slot) => slot.scheduled > 0) && new Set(batch).size === batch.length);
        assert(total > 0 || pending.every((count) => count === 0));
        assert(
          all.every((slot) => slot.pending !== 1 || slot.scheduled === 1),
          'every decoding slot has a token',
        );
      },
    ),
  );
});

test('the first decoding slots are used if the batch is too small', () => {
  const all = slots([1, 1, 1]);
  assert.equal(planBatch(all, [], 2, 2), 2);
  assert.deepEqual(scheduled(all), [1, 1, 0]);
});

test('a step has more prompts if slots with prompts outnumber slots that decode; idle slots do not count', () => {
  assert.equal(hasMorePrompts(slots([50])), true);
  assert.equal(hasMorePrompts(slots([50, 1])), false);
  assert.equal(hasMorePrompts(slots([50, 1, 2, 0])), true);
  assert.equal(hasMorePrompts(slots([1, 0])), false);
});

test('chunks shrink while steps take too long, and grow again', () => {
  const chunk = new ChunkSize(128, 300);
  for (let i = 0; i < 20; i++) chunk.observe(900, chunk.tokens);
  assert.equal(chunk.tokens, 32);
  for (let i = 0; i < 20; i++) chunk.observe(10, chunk.tokens);
  assert.equal(chunk.tokens, 128);
  chunk.observe(900, 3);
  assert.equal(chunk.tokens, 128, 'steps without prompts do not affect chunks');
});

test('the age of the last step is only known while there is work', () => {
  const clock = new StepClock();
  assert.equal(clock.ageMs(5), null);
  assert.equal(clock.medianMs(), 0);
  clock.workStarted(10);
  clock.workStarted(12);
  assert.equal(clock.ageMs(15), 5);
  for (const stepMs of [3, 1, 2]) clock.stepEnded(20, stepMs);
  assert.equal(clock.ageMs(21), 1);
  assert.equal(clock.medianMs(), 2);
  clock.idle();
  assert.equal(clock.ageMs(30), null);
  for (let i = 0; i < 100; i++) clock.stepEnded(30, 7);
  assert.equal(clock.medianMs(), 7, 'only the last 100 steps count');
});
