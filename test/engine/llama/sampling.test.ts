import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkLogitBias, samplerConfig } from '../../../src/engine/llama/decode/sampling.ts';
import { ServiceError } from '../../../src/core/errors.ts';
import type { Sampling } from '../../../src/core/sampling.ts';
import { NEUTRAL } from '../../generation-requests.ts';

const PROMPT = Uint32Array.of(5, 6, 7);

const config = (changed: Partial<Sampling>, seed = 1, continued = 0) =>
  samplerConfig({ ...NEUTRAL, ...changed }, seed, { prompt: PROMPT, continued }, 100);

test('neutral sampling uses the whole distribution', () => {
  assert.deepEqual(config({}), { temperature: 1, seed: 1 });
});

test('temperature 0 is greedy regardless of top_p, top_k and min_p', () => {
  assert.deepEqual(config({ temperature: 0, topP: 0.5, topK: 3, minP: 0.2 }), { temperature: 0, seed: 1 });
});

test('top_p is applied after a large default top_k, unless top_k is 0', () => {
  assert.deepEqual(config({ topP: 0.9 }), { temperature: 1, seed: 1, topK: 1000, topP: 0.9 });
  assert.deepEqual(config({ topP: 0.9, topK: 40 }), { temperature: 1, seed: 1, topK: 40, topP: 0.9 });
  assert.deepEqual(config({ topP: 0.9, topK: 0 }), { temperature: 1, seed: 1, topP: 0.9 });
});

test('only a repetition penalty without other penalties counts the prompt; all penalties count the completion', () => {
  const penalized = config({ presencePenalty: 1, frequencyPenalty: -0.5, repetitionPenalty: 1.2 });
  assert.deepEqual(penalized.repeatPenaltyTokens, new Uint32Array(0));
  assert.equal(penalized.repeatPenaltyPresencePenalty, 1);
  assert.equal(penalized.repeatPenaltyFrequencyPenalty, -0.5);
  assert.equal(penalized.repeatPenalty, 1.2);
  assert.equal(penalized.repeatPenaltyMaxTokens, 100, 'the whole slot, not the last 64');
  assert.deepEqual(config({ repetitionPenalty: 1.2 }).repeatPenaltyTokens, PROMPT);
});

test('the seed that llama.cpp interprets as "random" is replaced', () => {
  assert.equal(config({}, 0xffff_ffff).seed, 0xffff_fffe);
});

test('a bias on an unknown token is refused, and the error names the token', () => {
  checkLogitBias(new Map([[9, 1]]), 10);
  assert.throws(
    () =>
      checkLogitBias(
        new Map([
          [9, 1],
          [10, 1],
        ]),
        10,
      ),
    (error: unknown) =>
      error instanceof ServiceError && error.code === 'invalid_value' && error.param === 'logit_bias.10',
  );
});

test('penalties count the tokens of a generation that is continued', () => {
  assert.deepEqual(config({ presencePenalty: 1 }, 1, 2).repeatPenaltyTokens, Uint32Array.of(6, 7));
  assert.deepEqual(config({ repetitionPenalty: 1.2 }, 1, 2).repeatPenaltyTokens, PROMPT);
});
