import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withRecommended } from '../src/core/features.ts';
import type { Dialect } from '../src/core/generation.ts';
import type { RecommendedSampling } from '../src/core/sampling.ts';
import { chat } from './protocols/openai/samples.ts';

const RECOMMENDED: RecommendedSampling = {
  temperature: 0.6,
  topP: 0.95,
  topK: 20,
  minP: 0.05,
  repetitionPenalty: 1.1,
};

/** Returns the recommended parameters of a chat with these fields. */
function samplingOf(fields: object, dialects: readonly Dialect[], recommended = RECOMMENDED) {
  const { explicit, ...sampling } = withRecommended(chat(fields).request.sampling, recommended, dialects);
  const { temperature, topP, topK, minP, repetitionPenalty } = sampling;
  return { values: [temperature, topP, topK, minP, repetitionPenalty], explicit: [...explicit] };
}

test('a request gets the recommended value of each sampling parameter that it does not set', () => {
  assert.deepEqual(samplingOf({}, ['sluice', 'vllm']).values, [0.6, 0.95, 20, 0.05, 1.1]);
});

test('parameters of the caller have precedence over recommended ones, even if they are the defaults', () => {
  const fields = { temperature: 1, top_p: 1, top_k: 0, min_p: 0, repetition_penalty: 1 };
  assert.deepEqual(samplingOf(fields, ['sluice']).values, [1, 1, 0, 0, 1]);
  assert.deepEqual(samplingOf({ temperature: 0 }, ['sluice']).values, [0, 0.95, 20, 0.05, 1.1]);
  assert.deepEqual(samplingOf({ temperature: null }, ['sluice']).values, [0.6, 0.95, 20, 0.05, 1.1]);
});

test('a recommended parameter that a server of the model does not support does not apply', () => {
  const { values, explicit } = samplingOf({}, ['sluice', 'openai']);
  assert.deepEqual(values, [0.6, 0.95, null, 0, 1]);
  // Providers are sent only these.
  assert.deepEqual(explicit, ['temperature', 'topP']);
});

test('without recommended values, the sampling of a request does not change', () => {
  const { sampling } = chat().request;
  assert.equal(withRecommended(sampling, {}, ['sluice']), sampling);
});
