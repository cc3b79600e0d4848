import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { planSchema } from '../../../src/config/plan.ts';
import { LIMIT_NAMES, limits } from '../../../src/http/api/contract/limits.ts';
import { limitsJson, limitsFromJson } from '../../../src/http/api/limits-json.ts';

/** `requestsPerMinute` as `requests_per_minute`. */
const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

test('every limit that the configuration has can be said over HTTP, under its name in snake case', () => {
  assert.deepEqual(Object.keys(limits.shape), Object.keys(planSchema.shape).map(snake));
  for (const [name, word] of Object.entries(LIMIT_NAMES)) assert.equal(word, snake(name));
});

test('limits are the same after a way there and back', () => {
  const count = fc.integer({ min: 1, max: 1_000_000 });
  const fields = fc.record(
    {
      requestsPerMinute: count,
      tokensPerMinute: count,
      requestsInFlight: count,
      tokensPerDay: count,
      tokensPerMonth: count,
      usdPerMonth: fc.constantFrom('0', '25.00', '999999.999999'),
      burst: fc.record({ requests: count, tokens: count }, { requiredKeys: [] }),
    },
    { requiredKeys: [] },
  );
  const models = fc.dictionary(fc.constantFrom('a/b', 'c/d'), fields);
  const plan = fc
    .tuple(fields, fc.option(models, { nil: undefined }))
    .map(([all, models]) => ({ ...all, models }));
  fc.assert(
    fc.property(plan, (wanted) => {
      const sent: unknown = JSON.parse(JSON.stringify(limitsJson(wanted)));
      const plain: unknown = JSON.parse(JSON.stringify(wanted));
      assert.deepEqual(JSON.parse(JSON.stringify(limitsFromJson(limits.parse(sent)))), plain);
    }),
  );
});
