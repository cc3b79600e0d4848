import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { CacheScope, Choice } from '../../../src/engine/llama/choice.ts';
import { commonPrefix, place } from '../../../src/engine/llama/prefix-cache.ts';
import { Slot } from '../../../src/engine/llama/slots.ts';

const TOKENS = 256;

/** A slot that holds these tokens; with `busy`, one whose choice has computed that many of them. */
function slot(
  id: number,
  options: { holds?: number[]; scope?: CacheScope; lastUsed?: number; busy?: number } = {},
): Slot {
  const made = new Slot(id, TOKENS);
  const holds = options.holds ?? [];
  made.tokens.set(holds);
  made.filled = holds.length;
  made.computed = options.busy ?? holds.length;
  made.scope = options.scope ?? null;
  made.lastUsed = options.lastUsed ?? 0;
  // Only its presence counts here.
  if (options.busy !== undefined) made.choice = {} as Choice;
  return made;
}

const range = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i);
const prompt = Uint32Array.from(range(0, 100));

test('a prompt takes the least recently used slot where none holds its prefix', () => {
  const slots = [slot(0, { holds: [7], scope: 'a', lastUsed: 3 }), slot(1, { lastUsed: 2 })];
  assert.deepEqual(place(prompt, 'a', slots, true), {
    kind: 'seat',
    slot: slots[1],
    keep: 0,
    copyFrom: null,
  });
});

test('a prompt takes the idle slot that holds its longest prefix', () => {
  const slots = [
    slot(0, { holds: range(0, 30), scope: 'a', lastUsed: 1 }),
    slot(1, { holds: range(0, 60), scope: 'a', lastUsed: 9 }),
  ];
  assert.deepEqual(place(prompt, 'a', slots, true), {
    kind: 'seat',
    slot: slots[1],
    keep: 60,
    copyFrom: null,
  });
});

test('a prompt that is held whole keeps all but its last token, whose logits are needed', () => {
  const slots = [slot(0, { holds: range(0, 120), scope: 'a', lastUsed: 1 })];
  assert.deepEqual(place(prompt, 'a', slots, true), {
    kind: 'seat',
    slot: slots[0],
    keep: 99,
    copyFrom: null,
  });
});

test('a prefix of another scope counts for nothing', () => {
  const slots = [slot(0, { holds: range(0, 100), scope: 'a', lastUsed: 5 }), slot(1, { lastUsed: 1 })];
  assert.deepEqual(place(prompt, 'b', slots, true), {
    kind: 'seat',
    slot: slots[1],
    keep: 0,
    copyFrom: null,
  });
});

test('a prefix in a busy slot is copied', () => {
  const slots = [
    slot(0, { holds: range(0, 80), scope: 'a', lastUsed: 5, busy: 80 }),
    slot(1, { lastUsed: 1 }),
  ];
  assert.deepEqual(place(prompt, 'a', slots, true), {
    kind: 'seat',
    slot: slots[1],
    keep: 80,
    copyFrom: slots[0],
  });
});

test('a prefix that another request is computing is waited for', () => {
  const slots = [
    slot(0, { holds: range(0, 80), scope: 'a', lastUsed: 5, busy: 16 }),
    slot(1, { lastUsed: 1 }),
  ];
  assert.deepEqual(place(prompt, 'a', slots, true), { kind: 'wait', leader: slots[0], until: 80 });
});

test('a longer conversation is copied from rather than cut, while an older slot is there', () => {
  const long = slot(0, { holds: [...range(0, 50), ...range(500, 150)], scope: 'a', lastUsed: 5 });
  const old = slot(1, { holds: range(900, 10), scope: 'a', lastUsed: 1 });
  assert.deepEqual(place(prompt, 'a', [long, old], true), {
    kind: 'seat',
    slot: old,
    keep: 50,
    copyFrom: long,
  });
  assert.deepEqual(place(prompt, 'a', [long], true), {
    kind: 'seat',
    slot: long,
    keep: 50,
    copyFrom: null,
  });
});

test('a model whose sequences cannot be cut reuses only what continues exactly', () => {
  const exact = slot(0, { holds: range(0, 40), scope: 'a', lastUsed: 5 });
  const more = slot(1, { holds: range(0, 120), scope: 'a', lastUsed: 6 });
  assert.deepEqual(place(prompt, 'a', [exact, more], false), {
    kind: 'seat',
    slot: exact,
    keep: 40,
    copyFrom: null,
  });
  const busy = slot(2, { holds: range(0, 80), scope: 'a', lastUsed: 7, busy: 10 });
  const free = slot(3, { lastUsed: 1 });
  assert.deepEqual(place(prompt, 'a', [busy, free], false), {
    kind: 'seat',
    slot: free,
    keep: 0,
    copyFrom: null,
  });
});

test('no slot is given away twice, and what is kept is really held, whatever the slots hold', () => {
  const held = fc.array(fc.nat(2), { maxLength: 20 });
  const anySlot = fc.record({
    holds: held,
    scope: fc.constantFrom('a', 'b'),
    lastUsed: fc.nat(9),
    busy: fc.option(fc.nat(20)),
  });
  fc.assert(
    fc.property(
      fc.array(anySlot, { minLength: 1, maxLength: 6 }),
      held,
      fc.boolean(),
      (states, ids, partial) => {
        const slots = states.map((state, id) =>
          slot(id, {
            ...state,
            busy: state.busy === null ? undefined : Math.min(state.busy, state.holds.length),
          }),
        );
        const wanted = Uint32Array.from([...ids, 1]);
        const placement = place(wanted, 'a', slots, partial);
        if (placement.kind === 'none') assert(slots.every((each) => each.choice !== null));
        if (placement.kind === 'wait')
          assert(placement.leader.choice !== null && placement.leader.scope === 'a');
        if (placement.kind !== 'seat') return;
        const source = placement.copyFrom ?? placement.slot;
        assert.equal(placement.slot.choice, null);
        assert(placement.keep < wanted.length);
        if (placement.keep === 0) return;
        assert.equal(source.scope, 'a');
        assert(commonPrefix(source.tokens, source.computed, wanted) >= placement.keep);
        assert(partial || placement.keep === source.computed);
      },
    ),
  );
});
