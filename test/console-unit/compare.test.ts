import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cosine } from '../../console/src/pages/playground/cosine.ts';
import { comparesTexts } from '../../console/src/pages/playground/model-text.ts';

const EMBEDDER = { id: 'test/embedder', modality: 'text->embedding' };
const CHAT = { id: 'test/chat', modality: 'text->text' };
const UNKNOWN = { id: 'test/unknown', modality: null };

describe('the cosine of two vectors', () => {
  test('depends on their directions, not on their lengths', () => {
    const vectors = [
      [2, 4, 4],
      [-1, -2, -2],
      [2, -1, 0],
      [0, 0, 0],
    ];
    assert.deepEqual(
      vectors.map((vector) => cosine([1, 2, 2], vector)),
      [1, -1, 0, 0],
    );
  });

  test('is at most 1 for thousands of numbers', () => {
    const long = Array.from({ length: 65_536 }, (_, index) => Math.sin(index));
    const value = cosine(long, long);
    assert.ok(value <= 1 && value > 0.999_999);
  });
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
