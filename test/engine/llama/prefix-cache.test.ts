import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import type { CacheScope, JobChoice } from '../../../src/engine/llama/decode/job.ts';
import { commonPrefix } from '../../../src/engine/llama/conversations/common-prefix.ts';
import type { Checkpoint } from '../../../src/engine/llama/native/context.ts';
import { choosePlacement, Slot } from '../../../src/engine/llama/decode/slots.ts';

const TOKENS = 256;

/** Creates a slot with the tokens `holds`. With `busy`, it has a choice that has computed that many of them. */
function slot(
  id: number,
  options: { holds?: number[]; scope?: CacheScope; useNumber?: number; busy?: number } = {},
): Slot {
  const result = new Slot(id, TOKENS);
  const holds = options.holds ?? [];
  result.tokens.set(holds);
  result.filled = holds.length;
  result.computed = options.busy ?? holds.length;
  result.scope = options.scope ?? null;
  result.useNumber = options.useNumber ?? 0;
  // Only whether a choice is present matters.
  if (options.busy !== undefined) result.choice = {} as JobChoice;
  return result;
}

/** The placement in a slot that keeps this many tokens, its own or copied from another slot. */
const assigned = (to: Slot | undefined, keep: number, from: Slot | null = null) => ({
  kind: 'assign',
  slot: to,
  keep,
  from,
});

const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);
const prompt = Uint32Array.from(range(0, 100));

test('a prompt without a cached prefix gets the least recently used slot', () => {
  const slots = [slot(0, { holds: [7], scope: 'a', useNumber: 3 }), slot(1, { useNumber: 2 })];
  assert.deepEqual(choosePlacement(prompt, 'a', slots, true), assigned(slots[1], 0));
});

test('a prompt gets the idle slot with its longest prefix', () => {
  const slots = [
    slot(0, { holds: range(0, 30), scope: 'a', useNumber: 1 }),
    slot(1, { holds: range(0, 60), scope: 'a', useNumber: 9 }),
  ];
  assert.deepEqual(choosePlacement(prompt, 'a', slots, true), assigned(slots[1], 60));
});

test('a completely cached prompt keeps all but its last token, whose logits are needed', () => {
  const slots = [slot(0, { holds: range(0, 120), scope: 'a', useNumber: 1 })];
  assert.deepEqual(choosePlacement(prompt, 'a', slots, true), assigned(slots[0], 99));
});

test('without a prefix, a prompt gets a slot beside a busy one, if that was not used lately', () => {
  const slots = [
    slot(0, { useNumber: 1 }),
    slot(1, { useNumber: 6 }),
    slot(2, { useNumber: 9, busy: 0 }),
    slot(3, { useNumber: 2 }),
    slot(4, { useNumber: 5 }),
  ];
  assert.deepEqual(choosePlacement(prompt, 'a', slots, true), assigned(slots[3], 0));
  const [, , , beside] = slots;
  assert(beside);
  beside.useNumber = 8;
  assert.deepEqual(choosePlacement(prompt, 'a', slots, true), assigned(slots[0], 0));
});

test('a prefix of another scope is ignored', () => {
  const slots = [slot(0, { holds: range(0, 100), scope: 'a', useNumber: 5 }), slot(1, { useNumber: 1 })];
  assert.deepEqual(choosePlacement(prompt, 'b', slots, true), assigned(slots[1], 0));
});

test('a prefix in a busy slot is copied', () => {
  const slots = [
    slot(0, { holds: range(0, 80), scope: 'a', useNumber: 5, busy: 80 }),
    slot(1, { useNumber: 1 }),
  ];
  assert.deepEqual(choosePlacement(prompt, 'a', slots, true), assigned(slots[1], 80, slots[0]));
});

test('a prompt waits for a prefix that another request is computing', () => {
  const slots = [
    slot(0, { holds: range(0, 80), scope: 'a', useNumber: 5, busy: 16 }),
    slot(1, { useNumber: 1 }),
  ];
  assert.deepEqual(choosePlacement(prompt, 'a', slots, true), { kind: 'wait', leader: slots[0], until: 80 });
});

test('a prefix of a longer conversation is copied if another slot was used less recently', () => {
  const long = slot(0, { holds: [...range(0, 50), ...range(500, 150)], scope: 'a', useNumber: 5 });
  const old = slot(1, { holds: range(900, 10), scope: 'a', useNumber: 1 });
  assert.deepEqual(choosePlacement(prompt, 'a', [long, old], true), assigned(old, 50, long));
  assert.deepEqual(choosePlacement(prompt, 'a', [long], true), assigned(long, 50));
});

test('a long prefix is copied too if the slot would lose much of its prompt, but not if it would lose what was generated', () => {
  const long = new Slot(0, 2048);
  long.tokens.set([...range(0, 800), ...range(5000, 500)]);
  Object.assign(long, { filled: 1300, computed: 1300, prompted: 1200, scope: 'a', useNumber: 5 });
  const old = new Slot(1, 2048);
  const other = Uint32Array.from(range(0, 1000));
  assert.deepEqual(choosePlacement(other, 'a', [long, old], true), assigned(old, 800, long));
  long.prompted = 810;
  assert.deepEqual(choosePlacement(other, 'a', [long, old], true), assigned(long, 800));
});

test('a short prefix is computed again if copying a large slot would take longer', () => {
  const large = (id: number, busy?: number): Slot => {
    const result = new Slot(id, 32_768);
    result.tokens.set(range(0, 30));
    result.filled = 30;
    result.computed = busy ?? 30;
    result.scope = 'a';
    if (busy !== undefined) result.choice = {} as JobChoice;
    return result;
  };
  const free = new Slot(1, 32_768);
  for (const busy of [large(0, 30), large(0, 16)])
    assert.deepEqual(choosePlacement(prompt, 'a', [busy, free], true), assigned(free, 0));
  const idle = large(0);
  const kept = choosePlacement(prompt, 'a', [idle, free], true);
  assert.deepEqual(kept, assigned(idle, 30));
});

test('only whole sequences are reused if the model cannot trim sequences', () => {
  const exact = slot(0, { holds: range(0, 40), scope: 'a', useNumber: 5 });
  const more = slot(1, { holds: range(0, 120), scope: 'a', useNumber: 6 });
  assert.deepEqual(choosePlacement(prompt, 'a', [exact, more], false), assigned(exact, 40));
  const busy = slot(2, { holds: range(0, 80), scope: 'a', useNumber: 7, busy: 10 });
  const free = slot(3, { useNumber: 1 });
  assert.deepEqual(choosePlacement(prompt, 'a', [busy, free], false), assigned(free, 0));
});

test('without trimming, a prompt keeps the tokens of the latest usable checkpoint of its own slot', () => {
  const at = (...counts: number[]): Checkpoint[] =>
    counts.map((tokens) => ({ tokens, native: { init: () => Promise.resolve(), dispose: () => {} } }));
  const own = slot(0, { holds: range(0, 130), scope: 'a', useNumber: 6 });
  own.checkpoints = at(40, 70, 120);
  const free = slot(1, { useNumber: 1 });
  assert.deepEqual(choosePlacement(prompt, 'a', [own, free], false), assigned(own, 70));
  // Most of its conversation would be lost.
  const long = slot(0, { holds: range(0, 200), scope: 'a', useNumber: 6 });
  long.checkpoints = at(70);
  assert.deepEqual(choosePlacement(prompt, 'a', [long, free], false), assigned(free, 0));
  assert.deepEqual(choosePlacement(prompt, 'a', [long], false), assigned(long, 70));
  const whole = slot(2, { holds: range(0, 80), scope: 'a', useNumber: 5 });
  assert.deepEqual(choosePlacement(prompt, 'a', [own, whole], false), assigned(whole, 80));
  const busy = slot(3, { holds: range(0, 200), scope: 'a', useNumber: 6, busy: 90 });
  busy.checkpoints = at(70);
  assert.deepEqual(choosePlacement(prompt, 'a', [busy, free], false), assigned(free, 0));
  own.dropCheckpoints(70);
  assert.deepEqual(
    own.checkpoints.map(({ tokens }) => tokens),
    [40, 70],
  );
});

test('only idle slots are assigned, and only matching tokens are kept', () => {
  const tokens = fc.array(fc.nat(2), { maxLength: 20 });
  const anySlot = fc.record({
    holds: tokens,
    scope: fc.constantFrom('a', 'b'),
    useNumber: fc.nat(9),
    busy: fc.option(fc.nat(20)),
  });
  fc.assert(
    fc.property(
      fc.array(anySlot, { minLength: 1, maxLength: 6 }),
      tokens,
      fc.boolean(),
      (states, ids, canTrim) => {
        const slots = states.map((state, id) =>
          slot(id, {
            ...state,
            busy: state.busy === null ? undefined : Math.min(state.busy, state.holds.length),
          }),
        );
        const prompt = Uint32Array.from([...ids, 1]);
        const placement = choosePlacement(prompt, 'a', slots, canTrim);
        if (placement.kind === 'none') assert(slots.every((each) => each.choice !== null));
        if (placement.kind === 'wait')
          assert(placement.leader.choice !== null && placement.leader.scope === 'a');
        if (placement.kind !== 'assign') return;
        const source = placement.from ?? placement.slot;
        assert(source instanceof Slot, 'nothing is stored');
        assert.equal(placement.slot.choice, null);
        assert(placement.keep < prompt.length);
        if (placement.keep === 0) return;
        assert.equal(source.scope, 'a');
        assert(commonPrefix(source.tokens, source.computed, prompt) >= placement.keep);
        assert(canTrim || placement.keep === source.computed);
      },
    ),
  );
});
