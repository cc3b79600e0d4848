import assert from 'node:assert/strict';
import { test } from 'node:test';
import { configSchema, type ModelConfig } from '../../src/config/schema.ts';
import { findModel, plannedModel, withCatalog } from '../../src/models/catalog.ts';

function modelOf(settings: object): ModelConfig {
  const [model] = configSchema.parse({ models: [settings] }).models;
  assert.ok(model);
  return withCatalog(model);
}

test('an embedded model has the capabilities in the catalog, unless the configuration sets them', () => {
  const capabilities = (settings: object) => {
    const { tools, reasoning } = modelOf(settings);
    return [tools, reasoning];
  };
  assert.deepEqual(capabilities({ id: 'Qwen/Qwen3-0.6B' }), [true, true]);
  assert.deepEqual(capabilities({ id: 'Qwen/Qwen2.5-0.5B-Instruct' }), [true, false]);
  assert.deepEqual(capabilities({ id: 'Qwen/Qwen3-0.6B', reasoning: false }), [true, false]);
  assert.deepEqual(capabilities({ id: 'acme/own', engine: { file: './own.gguf' } }), [undefined, undefined]);
});

test('a replica has the recommended sampling of the catalog, but its capabilities are unknown', () => {
  const replicas = [{ url: 'http://127.0.0.1:9', dialect: 'vllm' }];
  const model = modelOf({ id: 'Qwen/Qwen3-0.6B', replicas });
  assert.deepEqual(
    [model.recommendedSampling?.topK, model.tools, model.reasoning],
    [20, undefined, undefined],
  );
});

test('a model of embeddings is planned without a KV cache, unless its tokens see only earlier ones', () => {
  const planned = (id: string) => plannedModel(findModel(id) ?? assert.fail());
  const { embedding, kvBytesPerToken } = planned('sentence-transformers/all-MiniLM-L6-v2');
  assert.deepEqual([embedding, kvBytesPerToken], [{ pooling: 'mean', causal: false }, 0]);
  assert.deepEqual(planned('Qwen/Qwen3-Embedding-0.6B').embedding, { pooling: 'last', causal: true });
  assert(planned('Qwen/Qwen3-Embedding-0.6B').kvBytesPerToken > 0);
  assert.equal(planned('Qwen/Qwen3-0.6B').embedding, null);
});
