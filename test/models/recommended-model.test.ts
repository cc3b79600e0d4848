import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recommendModel } from '../../src/models/recommended-model.ts';
import { findModel } from '../../src/models/catalog.ts';

const served = findModel('HuggingFaceTB/SmolLM2-135M-Instruct') ?? assert.fail();
const recommended = (gigabytes: number, cores: number) =>
  recommendModel(served, { availableBytes: gigabytes * 1e9, cores })?.id;

test('the recommended model is the largest that fits the memory', () => {
  assert.deepEqual(
    [1, 2, 4, 8, 64].map((gigabytes) => recommended(gigabytes, 64)),
    [undefined, 'Qwen/Qwen2.5-0.5B-Instruct', 'Qwen/Qwen3-1.7B', 'Qwen/Qwen3-4B', 'openai/gpt-oss-20b'],
  );
});

test('a smaller model is recommended for fewer cores', () => {
  assert.deepEqual(
    [1, 2, 4, 8].map((cores) => recommended(64, cores)),
    [undefined, 'Qwen/Qwen2.5-0.5B-Instruct', 'Qwen/Qwen3-1.7B', 'HuggingFaceTB/SmolLM3-3B'],
  );
});

test('a model is only recommended if it is larger than the served one', () => {
  const large = findModel('openai/gpt-oss-20b') ?? assert.fail();
  assert.equal(recommendModel(large, { availableBytes: 1e12, cores: 64 }), null);
});

test('a model of embeddings is not recommended, although it may be larger', () => {
  const embeddings = findModel('nomic-ai/nomic-embed-text-v1.5') ?? assert.fail();
  assert(embeddings.sizeGb > served.sizeGb);
  for (const megabytes of [400, 500, 600, 700, 800, 900])
    assert.equal(recommended(megabytes / 1000, 64), undefined);
});
