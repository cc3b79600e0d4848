import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { CPU_DRAFTS, GPU_DRAFTS, planDrafts } from '../../../src/engine/llama/decode/draft-plan.ts';
import { Drafter, hashOf } from '../../../src/engine/llama/decode/drafter.ts';
import type { JobChoice } from '../../../src/engine/llama/decode/job.ts';
import { Slot } from '../../../src/engine/llama/decode/slots.ts';

/** Follows a text of few different tokens, and returns the draft after each token that is not the prompt's. */
function draftsOf(text: readonly number[], promptLength: number, max: number): number[][] {
  const tokens = new Uint32Array(text.length + max);
  tokens.set(text.slice(0, promptLength));
  const drafter = new Drafter(tokens, promptLength);
  return text.slice(promptLength).map((token, i) => {
    const length = promptLength + i + 1;
    tokens[length - 1] = token;
    return [...tokens.subarray(length, length + drafter.draft(length, max))];
  });
}

/** The same, but searches the whole text for each token. */
function expectedDrafts(text: readonly number[], promptLength: number, max: number): number[][] {
  let source = 0;
  let matched = 0;
  return text.slice(promptLength).map((token, i) => {
    const end = promptLength + i;
    if (source > 0 && text[source] === token) {
      source++;
      matched++;
    } else {
      source = end < 3 ? 0 : latest(text, end);
      matched = source > 0 ? 3 : 0;
    }
    const size = [16, 8, 4].find((length) => 2 * length <= matched && length <= max + 1) ?? 1;
    const known = text.slice(0, end + 1);
    return Array.from({ length: size - 1 }, (_, ahead) => {
      const predicted = known[source + ahead] ?? NaN;
      known.push(predicted);
      return predicted;
    });
  });
}

/** Returns the position after the latest earlier occurrence of the three tokens that end at `end`, or 0. */
function latest(text: readonly number[], end: number): number {
  for (let position = end; position >= 3; position--)
    if ([1, 2, 3].every((back) => text[position - back] === text[end + 1 - back])) return position;
  return 0;
}

/** Texts that repeat parts of themselves. */
const TEXTS = fc
  .array(fc.tuple(fc.array(fc.nat(3), { maxLength: 12 }), fc.nat(100), fc.nat(60)), { maxLength: 12 })
  .map((parts) => {
    const text: number[] = [];
    for (const [more, from, length] of parts) text.push(...more, ...text.slice(from, from + length));
    return text;
  });

test('a draft is what followed the latest earlier occurrence, and half as long as the text that it has predicted', () => {
  let longest = 0;
  fc.assert(
    fc.property(TEXTS, fc.nat(200), fc.nat(20), (text, promptLength, max) => {
      const prompt = Math.min(promptLength, text.length);
      const drafts = draftsOf(text, prompt, max);
      assert.deepEqual(drafts, expectedDrafts(text, prompt, max));
      longest = Math.max(longest, ...drafts.map((draft) => draft.length));
    }),
    { examples: [[Array.from({ length: 100 }, (_, i) => i % 40), 45, 20]] },
  );
  assert.equal(longest, 15);
});

test('tokens that were added between two drafts are followed as well', () => {
  const text = Array.from({ length: 40 }, (_, i) => i % 20);
  const tokens = new Uint32Array(60);
  tokens.set(text);
  const drafter = new Drafter(tokens, 20);
  assert.equal(drafter.draft(40, 15), 7);
  assert.deepEqual([...tokens.subarray(40, 47)], [0, 1, 2, 3, 4, 5, 6]);
});

test('after a wrong prediction there is no draft until as many were right again', () => {
  const period = Array.from({ length: 50 }, (_, i) => i);
  const drafts = draftsOf([...period, ...period.slice(0, 20), 99, ...period.slice(21)], 50, 15);
  const lengths = drafts.map((draft) => draft.length);
  assert.deepEqual(lengths.slice(0, 8), [0, 0, 0, 0, 0, 0, 0, 3]);
  assert.equal(lengths[19], 7);
  assert.deepEqual(lengths.slice(20, 29), [0, 0, 0, 0, 0, 0, 0, 0, 3]);
});

test('a prompt whose keys all have nearly the same hash takes little time', () => {
  const length = 1024;
  const text = [1, 2];
  while (text.length < length) {
    const [first = 0, second = 0] = text.slice(-2);
    const from = text.length * 1000;
    const next = Array.from({ length: 4096 }, (_, i) => from + i).find(
      (token) => (hashOf(first, second, token) & (2 * length - 1)) < 4,
    );
    assert(next !== undefined);
    text.push(next);
  }
  let reads = 0;
  const tokens = new Proxy(Uint32Array.from(text), {
    get(target, property) {
      reads++;
      return Reflect.get(target, property);
    },
  });
  void new Drafter(tokens, length);
  assert(reads < 50 * length, `${reads} reads`);
});

interface State {
  /** Tokens of the text, which repeats one token. 0: the slot computes its prompt. */
  matched: number;
  remaining: number;
  constrained: boolean;
}

function slotOf({ matched, remaining, constrained }: State, id: number): Slot {
  const slot = new Slot(id, 200);
  slot.filled = Math.max(2, matched);
  slot.scheduled = matched === 0 ? 2 : 1;
  slot.tokens.fill(7, 0, slot.filled);
  const prompt = new Uint32Array(1);
  // The other members are not used.
  slot.choice = {
    prompt,
    remaining,
    constrainedBy: constrained ? 'tools' : null,
    drafter: null,
  } as unknown as JobChoice;
  return slot;
}

const REPEATING = { matched: 100, remaining: 100, constrained: false };
const drafted = (states: readonly State[], budget = CPU_DRAFTS): number[] => {
  const slots = states.map(slotOf);
  planDrafts(slots, budget);
  return slots.map((slot) => slot.drafted);
};

test('the slots of a step share its tokens', () => {
  const repeating = (slots: number) => Array.from({ length: slots }, () => REPEATING);
  for (const [slots, length] of [
    [1, 15],
    [2, 7],
    [3, 3],
    [4, 3],
    [5, 0],
    [8, 0],
  ] as const)
    assert.deepEqual(drafted(repeating(slots)), Array<number>(slots).fill(length), `${slots} slots`);
  assert.equal(drafted(repeating(4), GPU_DRAFTS)[3], 15);
  assert.equal(drafted(repeating(16), GPU_DRAFTS)[15], 3);
  assert.equal(drafted(repeating(17), GPU_DRAFTS)[16], 0);
});

test('on a CPU, no slot has a draft if another one has none', () => {
  const free = { ...REPEATING, matched: 5 };
  assert.deepEqual(drafted([REPEATING, free]), [0, 0]);
  assert.deepEqual(drafted([REPEATING, free], GPU_DRAFTS), [15, 0]);
});

test('there are no drafts while prompts are computed, and none with a grammar', () => {
  assert.deepEqual(drafted([REPEATING, { ...REPEATING, matched: 0 }], GPU_DRAFTS), [0, 0]);
  assert.deepEqual(drafted([REPEATING, { ...REPEATING, constrained: true }], GPU_DRAFTS), [15, 0]);
});

test('a draft is shorter than the rest of the completion', () => {
  for (const [remaining, length] of [
    [1, 0],
    [3, 0],
    [4, 3],
    [15, 7],
    [16, 15],
  ] as const)
    assert.deepEqual(drafted([{ ...REPEATING, remaining }]), [length], `${remaining} tokens`);
});

test('a step never has more tokens than its budget', () => {
  const state = fc.record({ matched: fc.nat(150), remaining: fc.nat(150), constrained: fc.boolean() });
  fc.assert(
    fc.property(
      fc.array(state, { minLength: 1, maxLength: 20 }),
      fc.constantFrom(CPU_DRAFTS, GPU_DRAFTS),
      (states, budget) => {
        const slots = states.map(slotOf);
        const total = planDrafts(slots, budget);
        assert.equal(
          total,
          slots.reduce((sum, slot) => sum + slot.drafted, 0),
        );
        assert(total === 0 || total + slots.length <= budget.stepTokens);
        for (const [i, slot] of slots.entries())
          assert(slot.drafted < Math.max(1, states[i]?.remaining ?? 0));
      },
    ),
  );
});
