import assert from 'node:assert/strict';
import { test } from 'node:test';
import { didYouMean, misspelled, nearest, rankNames } from '../src/support/nearest.ts';

test('the nearest name differs by case, separators or two typing errors, or contains the given name', () => {
  const known = ['slots', 'contextTokens', 'file', 'drainMs', 'n'];
  for (const [name, meant] of [
    ['context_tokens', 'contextTokens'],
    ['CONTEXTTOKENS', 'contextTokens'],
    ['contxtTokns', 'contextTokens'],
    ['context', 'contextTokens'],
    ['drian', null],
    ['drianMs', 'drainMs'],
    ['flie', 'file'],
    ['fi', null],
    ['N', 'n'],
    ['m', null],
    ['', null],
    ['temperature', null],
    ['x'.repeat(10_000), null],
  ] as const) {
    assert.equal(nearest(name, known), meant, name);
  }
  assert.equal(didYouMean('slot', known), ' Did you mean `slots`?');
  assert.equal(didYouMean('temperature', known), '');
});

test('names are sorted by similarity, and the shortest that contains the given name comes first', () => {
  const known = ['acme/large', 'acme/small-instruct', 'acme/small', 'other/smal'];
  assert.deepEqual(rankNames('small', known).ranked, [
    'acme/small',
    'acme/small-instruct',
    'other/smal',
    'acme/large',
  ]);
  assert.equal(rankNames('acme/lage', known).ranked[0], 'acme/large');
  assert.equal(nearest('openai/Smal', known), 'other/smal');
});

test('a name without a namespace is compared to the names after the namespace', () => {
  const known = ['acme/large', 'acme/small-instruct'];
  assert.equal(nearest('lagre', known), 'acme/large');
  assert.equal(nearest('small-instructt', known), 'acme/small-instruct');
  assert.equal(nearest('medium', known), null);
});

test('a name is misspelled if it differs from a known one by case, separators or one typing error', () => {
  const known = ['top_p', 'top_k', 'max_tokens', 'n', 'stream_options'];
  for (const [name, meant] of [
    ['topK', 'top_k'],
    ['max_token', 'max_tokens'],
    ['max_tokesn', 'max_tokens'],
    ['MAX-TOKENS', 'max_tokens'],
    ['top_a', 'top_p'],
    ['N', 'n'],
    ['m', null],
    ['min_tokens', null],
    ['options', null],
    ['x'.repeat(10_000), null],
  ] as const) {
    assert.equal(misspelled(name, known), meant, name);
  }
});
