import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { Choice } from '../../../src/engine/llama/choice.ts';
import { Slot } from '../../../src/engine/llama/slots.ts';
import { ChunkSize, planBatch, StepClock } from '../../../src/engine/llama/step.ts';

function slots(pending: readonly number[]): Slot[] {
  return pending.map((count, id) => {
    const slot = new Slot(id, 1000);
    slot.filled = count;
    slot.lastUsed = id;
    // Only its presence counts here; a slot with nothing pending is idle.
    if (count > 0) slot.choice = {} as Choice;
    return slot;
  });
}

const taken = (all: readonly Slot[]): number[] => all.map((slot) => slot.taken);

test('slots that decode have their token before any prompt gets the rest of the batch', () => {
  const all = slots([200, 1, 0, 1]);
  const batch: Slot[] = [];
  assert.equal(planBatch(all, batch, 128, 128), 128);
  assert.deepEqual(taken(all), [126, 1, 0, 1]);
});

test('the prompt that was seated first has three quarters, the shortest of the others the rest', () => {
  const all = slots([400, 300, 20]);
  assert.equal(planBatch(all, [], 128, 128), 128);
  assert.deepEqual(taken(all), [96, 12, 20]);
  for (const slot of all) slot.lastUsed = 9 - slot.lastUsed;
  assert.equal(planBatch(all, [], 128, 128), 128);
  assert.deepEqual(taken(all), [0, 108, 20], 'what the first does not need is for the others');
});

test('what the others do not need is for the first', () => {
  const all = slots([400, 10]);
  assert.equal(planBatch(all, [], 128, 100), 100);
  assert.deepEqual(taken(all), [90, 10]);
});

test('a batch never has more than its tokens, nor a slot more than it has pending', () => {
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
          all.reduce((sum, slot) => sum + slot.taken, 0),
        );
        assert(total <= batchTokens);
        assert(all.every((slot) => slot.taken <= slot.pending));
        assert(batch.every((slot) => slot.taken > 0) && new Set(batch).size === batch.length);
        assert(total > 0 || pending.every((count) => count === 0));
        assert(
          all.every((slot) => slot.pending !== 1 || slot.taken === 1),
          'every slot that decodes has a token',
        );
      },
    ),
  );
});

test('of more decoding slots than a batch has tokens, the first are in it', () => {
  const all = slots([1, 1, 1]);
  assert.equal(planBatch(all, [], 2, 2), 2);
  assert.deepEqual(taken(all), [1, 1, 0]);
});

test('chunks shrink while steps are too long, and grow back', () => {
  const chunk = new ChunkSize(128);
  for (let i = 0; i < 20; i++) chunk.observe(900, chunk.tokens);
  assert.equal(chunk.tokens, 32);
  for (let i = 0; i < 20; i++) chunk.observe(10, chunk.tokens);
  assert.equal(chunk.tokens, 128);
  chunk.observe(900, 3);
  assert.equal(chunk.tokens, 128, 'a step without a prompt says nothing about chunks');
});

test('the clock tells the age of the last step only while there is work', () => {
  const clock = new StepClock();
  assert.equal(clock.ageMs(5), null);
  assert.equal(clock.medianMs(), 0);
  clock.begin(10);
  clock.begin(12);
  assert.equal(clock.ageMs(15), 5);
  for (const stepMs of [3, 1, 2]) clock.ended(20, stepMs);
  assert.equal(clock.ageMs(21), 1);
  assert.equal(clock.medianMs(), 2);
  clock.idle();
  assert.equal(clock.ageMs(30), null);
  for (let i = 0; i < 100; i++) clock.ended(30, 7);
  assert.equal(clock.medianMs(), 7, 'only the last hundred count');
});
