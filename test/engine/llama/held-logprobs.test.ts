import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { HeldLogprobs } from '../../../src/engine/llama/output/choice-output.ts';
import type { TokenLogprob } from '../../../src/core/generation.ts';

const logprob = (token: string): TokenLogprob => ({ token, logprob: -1, bytes: null, top: [] });

function holding(...tokens: string[]): HeldLogprobs {
  const held = new HeldLogprobs();
  for (const token of tokens) held.add(token, logprob(token));
  return held;
}

type Part = ReturnType<HeldLogprobs['release']>[number];

const tokensOf = (parts: readonly Part[]): string[] =>
  parts.flatMap(({ logprobs }) => logprobs.map(({ token }) => token));

describe('held log probabilities', () => {
  it('are returned once, in order, for any pieces of the text', () => {
    const tokens = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', ' '), minLength: 1, maxLength: 4 }));
    fc.assert(
      fc.property(tokens, fc.array(fc.nat({ max: 40 })), (all, cuts) => {
        const held = holding(...all);
        const text = all.join('');
        const ends = [...cuts.sort((a, b) => a - b), text.length];
        const released = ends.flatMap((end, i) => held.release(text.slice(ends[i - 1] ?? 0, end)));
        assert.deepEqual(tokensOf(released), all);
      }),
    );
  });

  it('of a long text are returned in parts of at most 64, with their text', () => {
    const held = holding(...Array.from({ length: 130 }, (_, index) => (index % 2 === 0 ? '' : 'é€')));
    const parts = held.release('é€'.repeat(65));
    assert.deepEqual(
      parts.map(({ text, logprobs }) => [text.length, logprobs.length]),
      [
        [64, 64],
        [64, 64],
        [2, 2],
      ],
    );
    assert.equal(parts.map(({ text }) => text).join(''), 'é€'.repeat(65));
  });

  it('include tokens without text of their own, such as the first bytes of a character', () => {
    const held = new HeldLogprobs();
    held.add('', logprob('first byte'));
    held.add('é', logprob('last byte'));
    assert.deepEqual(tokensOf(held.release('é')), ['first byte', 'last byte']);
  });

  it('leave out tokens whose text was omitted', () => {
    const held = holding('\n', '\n', 'Hello', '.');
    assert.deepEqual(tokensOf(held.release('Hello')), ['Hello']);
    assert.deepEqual(tokensOf(held.release('.')), ['.']);
  });

  it('belong to the response if part of their text does', () => {
    const held = holding('Sure', '.<', 'tool', '_call', '>');
    assert.deepEqual(tokensOf(held.release('Sure.')), ['Sure', '.<']);
    held.clear();
    held.add('Done', logprob('Done'));
    assert.deepEqual(tokensOf(held.release('Done')), ['Done']);
  });
});
