import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cosineOf, textErrors, type Comparison } from '../../console/src/pages/playground/compare.ts';
import { comparesTexts } from '../../console/src/pages/playground/model-text.ts';

const EMBEDDER = { id: 'test/embedder', modality: 'text->embedding' };
const CHAT = { id: 'test/chat', modality: 'text->text' };
const UNKNOWN = { id: 'test/unknown', modality: null };

function comparison(vectors: Readonly<Record<string, readonly number[]>>): Comparison {
  const usage = { promptTokens: 1, requestId: null, totalMs: 1, cost: '0' };
  return { ...usage, model: EMBEDDER.id, texts: Object.keys(vectors), vectors: Object.values(vectors) };
}

describe('the cosine of two texts', () => {
  const compared = comparison({
    a: [1, 2, 2],
    same: [2, 4, 4],
    opposite: [-1, -2, -2],
    orthogonal: [2, -1, 0],
    zero: [0, 0, 0],
  });
  const cosine = (second: string, model = EMBEDDER.id) => cosineOf(compared, model, 'a', second);

  test('depends on the directions of their vectors, not on the lengths', () => {
    assert.deepEqual(
      ['a', 'same', 'opposite', 'orthogonal', 'zero'].map((text) => cosine(text)),
      [1, 1, -1, 0, 0],
    );
  });

  test('is unknown for a changed text or another model', () => {
    assert.equal(cosine('changed'), null);
    assert.equal(cosine('same', CHAT.id), null);
  });

  test('of vectors with thousands of numbers is at most 1', () => {
    const long = Array.from({ length: 65_536 }, (_, index) => Math.sin(index));
    const value = cosineOf(comparison({ a: long, b: long }), EMBEDDER.id, 'a', 'b');
    assert.ok(value !== null && value <= 1 && value > 0.999_999);
  });
});

test('empty texts have an error in their field', () => {
  assert.deepEqual(textErrors(['a', ' \n', '']), {
    'input[1]': 'Enter a text.',
    'input[2]': 'Enter a text.',
  });
  assert.deepEqual(textErrors(['a', 'b']), {});
});

describe('the playground compares texts', () => {
  const compares = (query: string, models: readonly { id: string; modality: string | null }[]) =>
    comparesTexts(new URLSearchParams(query), models);
  const both = [CHAT, EMBEDDER, UNKNOWN];

  test('if the URL names an embedding model, or this mode', () => {
    assert.ok(compares(`model=${EMBEDDER.id}`, both));
    assert.ok(compares(`model=${EMBEDDER.id}&mode=text`, both));
    assert.ok(compares('mode=embeddings', both));
    assert.ok(compares('mode=embeddings', []));
    assert.ok(compares('mode=embeddings&model=test/removed', both));
  });

  test('but not with a model that generates text or whose modality is unknown', () => {
    for (const query of ['', 'mode=text', 'mode=chat', `model=${CHAT.id}`, `model=${UNKNOWN.id}`])
      assert.ok(!compares(query, both), query);
    assert.ok(!compares(`mode=embeddings&model=${CHAT.id}`, both));
  });

  test('if there are only embedding models, unless another mode is chosen', () => {
    assert.ok(compares('', [EMBEDDER]));
    assert.ok(!compares('mode=chat', [EMBEDDER]));
    assert.ok(!compares('', []));
  });
});
