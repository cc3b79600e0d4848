import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { BYTE_PAIR, TextCuts, type CutVocabulary } from '../../../src/engine/llama/prompt/text-cuts.ts';

/** Returns the pieces of a text with a vocabulary that has these tokens. */
function pieces(tokens: readonly string[], text: string, more: Partial<CutVocabulary> = {}): string[] {
  const none = { specials: null, longestSpecial: 0, stripping: new Set<string>(), addsSpace: false };
  return [...new TextCuts({ type: BYTE_PAIR, tokens, ...none, ...more }).pieces(text, 1)];
}

describe('the places where a text is cut', () => {
  it('are where no token can span them', () => {
    assert.deepEqual(pieces(['a'], 'one two'), ['one', ' two']);
    assert.deepEqual(pieces(['eĠt'], 'one two'), ['one two']);
    assert.deepEqual(pieces(['Ċt'], 'one\ntwo'), ['one\ntwo']);
    assert.deepEqual(pieces(['ne"'], '{"one":2}'), ['{"one":2}']);
  });

  it('are only before spaces if llama.cpp adds a space to every piece', () => {
    const text = 'a1 one\ntwo: {a"';
    assert.deepEqual(pieces(['a'], text), ['a', '1', ' one\n', 'two', ':', ' {a', '"']);
    const sentencePiece = { type: 1, addsSpace: true };
    assert.deepEqual(pieces(['a'], text, sentencePiece), ['a1', 'one\ntwo:', '{a"']);
  });

  // The models of Qwen have these tokens.
  it('are not lost to tokens of white space, or of another sign after a word', () => {
    assert.deepEqual(pieces(['ĠÂłĠÂł'], 'one two'), ['one', ' two']);
    assert.deepEqual(pieces(['<s>'], '{"one":2}'), ['{"one', '":2}']);
  });

  it('are not where a token with a part of a character can span them', () => {
    assert.deepEqual(pieces(['©Ġt'], 'one two'), ['one two']);
  });
});
