import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelConfig } from '../../src/config/schema.ts';
import type { ModelDescription } from '../../src/engine/engine.ts';
import { cardSource, imageLimits } from '../../src/routing/card.ts';

const CONFIG = {
  id: 'lab/model',
  pricing: { prompt: '0.10', completion: '0.20' },
} as ModelConfig;

function describing(fields: Partial<ModelDescription>): ModelDescription {
  return {
    contextTokens: null,
    maxCompletionTokens: null,
    quantization: null,
    tokenizer: null,
    instructType: null,
    ...fields,
  };
}

test('a model is not listed until its context is known', () => {
  const replica: { description: ModelDescription | null } = { description: null };
  const card = cardSource(CONFIG, [replica], () => 0);
  assert.equal(card(), null);
  replica.description = describing({ quantization: 'Q4_K_M' });
  assert.equal(card(), null);
  replica.description = describing({ contextTokens: 4096, quantization: 'Q4_K_M' });
  assert.deepEqual(
    [card()?.context_length, card()?.max_completion_tokens, card()?.quantization],
    [4096, 4096, 'Q4_K_M'],
  );
});

test('the smallest context of the replicas is listed, limited by the configuration', () => {
  const replicas = [
    { description: describing({ contextTokens: 8192, maxCompletionTokens: 1024 }) },
    { description: describing({ contextTokens: 4096 }) },
    { description: null },
  ];
  const card = cardSource(CONFIG, replicas, () => 0)();
  assert.deepEqual([card?.context_length, card?.max_completion_tokens], [4096, 1024]);
  const bounded = cardSource({ ...CONFIG, contextTokens: 512 }, replicas, () => 0)();
  assert.deepEqual([bounded?.context_length, bounded?.max_completion_tokens], [512, 512]);
});

test('the modality tells whether the model computes embeddings, unless the configuration sets it', () => {
  const modality = (config: ModelConfig, fields: Partial<ModelDescription>) =>
    cardSource(config, [{ description: describing({ contextTokens: 512, ...fields }) }], () => 0)()
      ?.architecture.modality;
  const embedding = 'text->embedding';
  assert.equal(modality(CONFIG, {}), 'text->text');
  assert.equal(modality(CONFIG, { modality: embedding }), 'text->embedding');
  assert.equal(
    modality({ ...CONFIG, modality: 'text+image->text' }, { modality: embedding }),
    'text+image->text',
  );
});

test('a model takes images if each of its servers reports it, because any of them may get the request', () => {
  const taking = { description: describing({ contextTokens: 512, modality: 'text+image->text' }) };
  const other = { description: describing({ contextTokens: 512 }) };
  const takes = (...replicas: (typeof taking)[]) => {
    const modality = cardSource(CONFIG, replicas, () => 0)()?.architecture.modality;
    assert.equal(modality === 'text+image->text', imageLimits(CONFIG, replicas) !== null);
    return modality;
  };
  assert.equal(takes(taking, taking), 'text+image->text');
  assert.equal(takes(taking, other), 'text->text');
  assert.equal(takes(other, taking), 'text->text');
});

test("the card is cached until a replica's description changes", () => {
  const replica = { description: describing({ contextTokens: 4096 }) };
  const card = cardSource(CONFIG, [replica], () => 7);
  const first = card();
  assert.equal(card(), first);
  replica.description = describing({ contextTokens: 2048 });
  assert.equal(card()?.context_length, 2048);
  assert.equal(card()?.created, 7);
});

test('tools and reasoning come from the configuration; otherwise they are unknown', () => {
  const replica = { description: describing({ contextTokens: 4096 }) };
  const card = (config: Partial<ModelConfig>) => cardSource({ ...CONFIG, ...config }, [replica], () => 0)();
  const configured = card({ tools: true, reasoning: false });
  assert.deepEqual([configured?.tools, configured?.reasoning], [true, false]);
  assert.deepEqual([card({})?.tools, card({})?.reasoning], [null, null]);
});

test('recommended sampling comes from the configuration; otherwise from the replica', () => {
  const replica = { description: describing({ contextTokens: 4096, recommendedSampling: { topK: 5 } }) };
  const sampling = (config: Partial<ModelConfig>) =>
    cardSource({ ...CONFIG, ...config }, [replica], () => 0)()?.recommendedSampling;
  assert.deepEqual(sampling({ recommendedSampling: { temperature: 0.5 } }), { temperature: 0.5 });
  assert.deepEqual(sampling({}), { topK: 5 });
});

test('recommended sampling is the default of requests, unless the configuration says `api`', () => {
  const replica = { description: describing({ contextTokens: 4096, recommendedSampling: { topK: 5 } }) };
  const sampling = (samplingDefaults: ModelConfig['samplingDefaults']) =>
    cardSource({ ...CONFIG, samplingDefaults }, [replica], () => 0)()?.defaultSampling;
  assert.deepEqual([sampling('recommended'), sampling('api')], [{ topK: 5 }, {}]);
});
