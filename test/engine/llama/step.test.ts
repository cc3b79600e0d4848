import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import type { JobChoice } from '../../../src/engine/llama/decode/job.ts';
import { ProgressClock } from '../../../src/engine/llama/decode/clocks.ts';
import { Slot } from '../../../src/engine/llama/decode/slots.ts';
import { StepPlanner } from '../../../src/engine/llama/decode/step-planner.ts';

/** Slots with so many pending tokens, oldest first. A slot without any is idle. */
function slots(...pending: number[]): Slot[] {
  return pending.map((count, id) => {
    const slot = new Slot(id, 1000);
    slot.filled = count;
    slot.useNumber = id;
    if (count > 0) slot.choice = choice(null);
    return slot;
  });
}

function choice(constrainedBy: JobChoice['constrainedBy']): JobChoice {
  return { constrainedBy } as JobChoice; // No other field matters.
}

/** Returns a function that plans a step and returns the number of tokens for each slot. */
function planner(all: readonly Slot[], promptTokenMs: number, batchTokens = 512) {
  const created = new StepPlanner(batchTokens, { promptTokenMs, decodeMs: 10 });
  const batch: Slot[] = [];
  return Object.assign(created, {
    next(): number[] {
      const total = created.plan(all, batch);
      const tokens = all.map((slot) => slot.scheduled);
      assert.equal(
        total,
        tokens.reduce((sum, count) => sum + count, 0),
      );
      assert.deepEqual(
        batch.map(({ id }) => id),
        all.filter(({ scheduled }) => scheduled > 0).map(({ id }) => id),
        'in the order of the slots, because llama.cpp computes gaps between their sequences apart',
      );
      return tokens;
    },
    /** Ends the step after this time. */
    ended(ms: number): void {
      created.stepEnded(ms);
      for (const slot of all) slot.computed += slot.pending > 1 ? slot.scheduled : 0;
    },
  });
}

test('without slots that decode, a prompt is computed in batches of the maximum size', () => {
  const steps = planner(slots(1000), 5);
  assert.deepEqual(steps.next(), [512]);
  steps.ended(512 * 5);
  assert.deepEqual(steps.next(), [488]);
});

test('a part of a prompt is never smaller than the tiles of the attention kernel, however slow the machine is', () => {
  for (const promptTokenMs of [1, 30, 300, 3000, 300_000])
    for (const decoding of [0, 1]) {
      const all = decoding === 0 ? slots(1000) : slots(1000, 1);
      const [tokens = 0] = planner(all, promptTokenMs).next();
      assert(tokens >= 64 && tokens % 64 === 0);
      if (tokens > 64) assert(tokens * promptTokenMs <= (decoding === 0 ? 10_000 : 200));
    }
});

test('prompts and slots that decode are not in the same step, and have the same time', () => {
  const all = slots(1000, 1, 0, 1);
  const steps = planner(all, 2);
  assert.deepEqual(steps.next(), [64, 0, 0, 0]);
  steps.ended(150);
  for (let decoded = 0; decoded < 150; decoded += 50) {
    assert.deepEqual(steps.next(), [0, 1, 0, 1]);
    steps.ended(50);
  }
  assert.deepEqual(steps.next(), [64, 0, 0, 0]);
});

test('the prompts of one account have half of the time, however many there are', () => {
  const all = slots(1, 900, 900, 900, 900);
  for (const slot of all) slot.scope = slot.pending > 1 ? 'a' : 'b';
  const steps = planner(all, 1);
  assert.deepEqual(steps.next(), [0, 192, 0, 0, 0]);
  steps.ended(200);
  for (let decoded = 0; decoded < 200; decoded += 50) {
    assert.deepEqual(steps.next(), [1, 0, 0, 0, 0]);
    steps.ended(50);
  }
  assert.deepEqual(steps.next(), [0, 192, 0, 0, 0]);
});

test('prompts have more time if they are of more accounts', () => {
  const steps = planner(slots(1, 900, 900, 900, 900), 1);
  assert.deepEqual(steps.next(), [0, 512, 0, 0, 0], 'four times as many tokens');
  steps.ended(800);
  assert.deepEqual(steps.next(), [1, 0, 0, 0, 0]);
  steps.ended(200);
  assert.deepEqual(steps.next(), [0, 388, 0, 0, 0], 'one time slice in five is for the slot that decodes');
});

test('the oldest prompt is first, unless another is much shorter, and others that fit as a whole are added', () => {
  assert.deepEqual(planner(slots(400, 300, 210), 5).next(), [400, 0, 0]);
  assert.deepEqual(planner(slots(260, 300, 210), 5).next(), [260, 0, 210]);
  const steps = planner(slots(400, 300, 60, 20), 5);
  assert.deepEqual(steps.next(), [0, 300, 60, 20]);
  steps.ended(1000);
  assert.deepEqual(steps.next(), [400, 0, 0, 0]);
});

test('a much shorter prompt is computed in every other step of a long one', () => {
  const all = slots(1000, 900, 0, 0);
  const steps = planner(all, 50, 128);
  const orders: number[] = [];
  const step = (): void => {
    orders.push(steps.next().findIndex((tokens) => tokens > 0));
    steps.ended(6400);
  };
  step();
  const [, , late] = all;
  assert(late);
  late.choice = choice(null);
  late.filled = 300;
  late.useNumber = 9;
  for (let i = 0; i < 6; i++) step();
  assert.deepEqual(orders, [0, 2, 0, 2, 0, 2, 0]);
});

test('slots whose grammars take long take turns, so that other slots do not wait for all of them', () => {
  const all = slots(1, 1, 1, 1, 1);
  for (const slot of all.slice(0, 4)) {
    slot.choice = choice('tools');
    slot.samplingMs = 90;
  }
  const steps = planner(all, 1);
  const turns = Array.from({ length: 5 }, () => {
    const tokens = steps.next();
    steps.ended(100);
    assert.equal(tokens[4], 1);
    return tokens.indexOf(1);
  });
  assert.deepEqual(turns, [0, 1, 2, 3, 0]);
  for (const slot of all) slot.samplingMs = 20;
  assert.deepEqual(steps.next(), [1, 1, 1, 1, 1]);
});

test('the expected duration of a step follows the measured speed, from the first step on', () => {
  const all = slots(1000);
  const steps = planner(all, 500);
  assert.equal(steps.expectedMs, 0);
  assert.deepEqual(steps.next(), [64]);
  assert.equal(steps.expectedMs, 64 * 500);
  steps.ended(64 * 100);
  steps.next();
  assert.equal(steps.expectedMs, 64 * 300);
  const [slot] = all;
  assert(slot);
  slot.computed = slot.filled - 1;
  steps.next();
  assert.equal(steps.expectedMs, 10);
});

test('no slot starves or gets more tokens than it has pending, and a batch never exceeds its size', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constant(1), fc.nat(900)), { minLength: 1, maxLength: 12, size: 'max' }),
      fc.constantFrom(128, 256, 512),
      fc.constantFrom(0.1, 1, 10, 200),
      fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 1, maxLength: 8 }),
      (pending, batchTokens, promptTokenMs, durations) => {
        const all = slots(...pending);
        const steps = planner(all, promptTokenMs, batchTokens);
        /** Consecutive steps for which slots that decode wait, and those with prompts but the oldest one. */
        let [waits, withoutOldest] = [0, 0];
        for (let step = 0; all.some((slot) => slot.pending > 1); step++) {
          const total = steps.next().reduce((sum, count) => sum + count, 0);
          assert(total > 0 && total <= batchTokens);
          assert(all.every((slot) => slot.scheduled <= slot.pending));
          const decoding = all.filter((slot) => slot.pending === 1);
          const oldest = all.find((slot) => slot.pending > 1);
          const isPrefill = all.some((slot) => slot.scheduled > 0 && slot.pending > 1);
          assert(decoding.every((slot) => slot.scheduled === (isPrefill ? 0 : 1)));
          waits = isPrefill && decoding.length > 0 ? waits + 1 : 0;
          assert(waits <= 1, 'slots that decode wait for one step');
          if (isPrefill) withoutOldest = oldest?.scheduled === 0 ? withoutOldest + 1 : 0;
          assert(withoutOldest <= 1, 'the oldest prompt waits for one other');
          steps.ended(durations[step % durations.length] ?? 1);
        }
      },
    ),
  );
});

test('the time without progress is only known while there is work', () => {
  const clock = new ProgressClock();
  assert.equal(clock.ageMs(5), null);
  clock.workStarted(10);
  clock.workStarted(12);
  assert.equal(clock.ageMs(15), 5);
  clock.progressed(20);
  assert.equal(clock.ageMs(21), 1);
  clock.idle();
  assert.equal(clock.ageMs(30), null);
});
