import assert from 'node:assert/strict';
import { test } from 'node:test';
import { didYouMean, nearest, rankNames } from '../src/nearest.ts';

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
