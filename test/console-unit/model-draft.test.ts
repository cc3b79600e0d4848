import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import {
  NEW_OFFER,
  NEW_SERVER,
  offerDraftOf,
  offerOf,
  serverOf,
} from '../../console/src/pages/models/model-draft.ts';

describe('prices and context length', () => {
  test('can be omitted: prices are then zero, cached tokens have none of their own, and the context length is the default', () => {
    assert.deepEqual(offerOf(NEW_OFFER), {
      value: { pricing: { prompt: '0', completion: '0', input_cache_read: null }, context_tokens: null },
      errors: null,
    });
  });

  test('accept a currency sign and thousands separators', () => {
    const { value } = offerOf({
      prompt: '$1,000.50',
      completion: ' 2 ',
      input_cache_read: ' $0',
      context: '131 072',
    });
    assert.deepEqual(value, {
      pricing: { prompt: '1000.50', completion: '2', input_cache_read: '0' },
      context_tokens: 131_072,
    });
  });

  test('that are not numbers are errors of their fields', () => {
    for (const draft of [
      { prompt: '-1', completion: '1e3', input_cache_read: '.', context: '1.5' },
      { prompt: '0,15', completion: '1,250', input_cache_read: '1,250', context: '4,096,0' },
    ]) {
      const { value, errors } = offerOf(draft);
      assert.equal(value, null);
      assert.deepEqual(Object.keys(errors ?? {}), [
        'pricing.prompt',
        'pricing.completion',
        'pricing.input_cache_read',
        'context_tokens',
      ]);
    }
  });

  test('of an existing model are unchanged after a round trip', () => {
    const price = fc
      .tuple(fc.nat(999), fc.nat(999_999))
      .map(([whole, fraction]) => `${whole}.${String(fraction).padStart(6, '0')}`);
    const context = fc.option(fc.integer({ min: 128, max: 1_048_576 }));
    fc.assert(
      fc.property(price, price, fc.option(price), context, (prompt, completion, cached, context_tokens) => {
        const { value } = offerOf(
          offerDraftOf({ pricing: { prompt, completion, input_cache_read: cached }, context_tokens }),
        );
        assert.equal(value?.context_tokens, context_tokens);
        assert.equal(Number(value?.pricing.prompt), Number(prompt));
        assert.equal(Number(value?.pricing.completion), Number(completion));
        assert.equal(value?.pricing.input_cache_read, cached);
      }),
    );
  });
});

describe('a server', () => {
  test('has only the fields that were entered', () => {
    const url = 'http://10.0.0.5:8000';
    assert.deepEqual(serverOf({ ...NEW_SERVER, url: ` ${url} ` }, '').value, { url, dialect: 'openai' });
    const all = { url, dialect: 'vllm' as const, model: 'm', keyVariable: 'SLUICE_REPLICA_A' };
    assert.deepEqual(serverOf({ ...all, maxInFlight: '64' }, '').value, {
      url,
      dialect: 'vllm',
      model: 'm',
      api_key_env: 'SLUICE_REPLICA_A',
      max_in_flight: 64,
    });
  });

  test('with an invalid count has an error whose field name has the given prefix', () => {
    const { errors } = serverOf({ ...NEW_SERVER, maxInFlight: '0' }, 'replica.');
    assert.deepEqual(Object.keys(errors ?? {}), ['replica.max_in_flight']);
  });
});
