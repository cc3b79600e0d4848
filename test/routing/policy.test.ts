import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { POLICIES, type Candidate, type PolicyName } from '../../src/routing/placement.ts';

const IDLE: Candidate = {
  hasRoom: true,
  inFlight: 0,
  outstandingPrefillTokens: 0,
  uncachedPromptTokens: 100,
  warmth: 1,
};

const candidate = fc.record<Candidate>({
  hasRoom: fc.boolean(),
  inFlight: fc.nat(5),
  outstandingPrefillTokens: fc.nat(3).map((steps) => steps * 500),
  uncachedPromptTokens: fc.nat(3).map((steps) => steps * 500),
  warmth: fc.constantFrom(0.1, 0.5, 1),
});
const candidates = fc.array(candidate, { minLength: 1, maxLength: 8 });
const everyPolicy = fc
  .constantFrom<PolicyName[]>('cost', 'least-requests', 'round-robin')
  .map((name) => POLICIES[name]);

/** Returns the indexes in the order of their turns after `last`. */
function turnsAfter(last: number, count: number): number[] {
  return Array.from({ length: count }, (_, step) => (last + 1 + step) % count);
}

test('every policy returns an index of the candidates, or -1 without candidates', () => {
  fc.assert(
    fc.property(everyPolicy, candidates, fc.nat(7), (policy, list, last) => {
      const chosen = policy(list, last % list.length);
      assert.ok(Number.isInteger(chosen) && chosen >= 0 && chosen < list.length);
      assert.equal(policy([], last), -1);
    }),
  );
});

test('equal candidates take turns in every policy', () => {
  fc.assert(
    fc.property(everyPolicy, candidate, fc.integer({ min: 1, max: 8 }), (policy, same, count) => {
      const list = Array.from({ length: count }, () => same);
      let last = count - 1;
      const choices = list.map(() => (last = policy(list, last)));
      assert.deepEqual(
        choices,
        list.map((_, index) => index),
      );
    }),
  );
});

test('round-robin selects the next candidate with room regardless of its load, or the next candidate if none has room', () => {
  fc.assert(
    fc.property(candidates, fc.nat(7), (list, seed) => {
      const last = seed % list.length;
      const turns = turnsAfter(last, list.length);
      const expected = turns.find((index) => list[index]?.hasRoom) ?? turns[0];
      assert.equal(POLICIES['round-robin'](list, last), expected);
    }),
  );
});

test('least-requests selects the next candidate with room that has the fewest requests in flight', () => {
  fc.assert(
    fc.property(candidates, fc.nat(7), (mixed, seed) => {
      const list = mixed.map((one) => ({ ...one, warmth: 1 }));
      const last = seed % list.length;
      const someHaveRoom = list.some(({ hasRoom }) => hasRoom);
      const turns = turnsAfter(last, list.length).filter((index) => list[index]?.hasRoom === someHaveRoom);
      const fewest = Math.min(...turns.map((index) => list[index]?.inFlight ?? NaN));
      assert.equal(
        POLICIES['least-requests'](list, last),
        turns.find((index) => list[index]?.inFlight === fewest),
      );
    }),
  );
});

test('least-requests gives a replica with a warmth of 0.5 half as many requests in flight', () => {
  const inFlight = [0, 0];
  for (let request = 0; request < 30; request++) {
    const list = inFlight.map((count, index) => ({
      ...IDLE,
      inFlight: count,
      warmth: index === 0 ? 0.5 : 1,
    }));
    const chosen = POLICIES['least-requests'](list, 1);
    inFlight[chosen] = (inFlight[chosen] ?? NaN) + 1;
  }
  assert.deepEqual(inFlight, [10, 20]);
});

test('cost never selects a candidate with more load, less of the prompt cached and no more warmth than another', () => {
  fc.assert(
    fc.property(candidates, fc.nat(7), (list, seed) => {
      const chosen = list[POLICIES.cost(list, seed % list.length)];
      assert.ok(chosen);
      const dominating = list.filter(
        (other) =>
          other.inFlight < chosen.inFlight &&
          other.outstandingPrefillTokens < chosen.outstandingPrefillTokens &&
          other.uncachedPromptTokens < chosen.uncachedPromptTokens &&
          other.warmth >= chosen.warmth,
      );
      assert.deepEqual(dominating, []);
    }),
  );
});

test('cost prefers the replica that has the prompt cached, until the prompts waiting there are longer', () => {
  const choose = (outstandingPrefillTokens: number) =>
    POLICIES.cost(
      [
        { ...IDLE, uncachedPromptTokens: 2000 },
        { ...IDLE, uncachedPromptTokens: 100, outstandingPrefillTokens },
      ],
      1,
    );
  assert.deepEqual([choose(0), choose(1800), choose(1950)], [1, 1, 0]);
});

test('cost selects the replica with fewer requests in flight if the prompts cost the same', () => {
  assert.equal(
    POLICIES.cost(
      [
        { ...IDLE, inFlight: 3 },
        { ...IDLE, inFlight: 2 },
      ],
      1,
    ),
    1,
  );
});
