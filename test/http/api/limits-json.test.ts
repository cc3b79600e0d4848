import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { ServiceError } from '../../../src/core/errors.ts';
import { limitsSchema } from '../../../src/config/plan.ts';
import { limits } from '../../../src/http/api/contract/limits.ts';
import { accountJson } from '../../../src/http/api/json.ts';
import { changedLimits, limitsJson, limitsFromJson } from '../../../src/http/api/limits-json.ts';

test('every limit of the configuration is in the management API, in snake case', () => {
  const names = Object.keys(limits.shape);
  assert.equal(names.length, Object.keys(limitsSchema.shape).length);
  for (const name of ['requests_per_minute', 'requests_in_flight', 'usd_per_month', 'burst', 'models']) {
    assert.ok(names.includes(name), name);
  }
  for (const name of names) assert.match(name, /^[a-z]+(_[a-z]+)*$/);
});

test('limits survive a round trip through JSON', () => {
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
    .map(([ofAll, models]) => ({ ...ofAll, models }));
  fc.assert(
    fc.property(plan, (planLimits) => {
      const sent: unknown = JSON.parse(JSON.stringify(limitsJson(planLimits)));
      const plain: unknown = JSON.parse(JSON.stringify(planLimits));
      assert.deepEqual(JSON.parse(JSON.stringify(limitsFromJson(limits.parse(sent)))), plain);
    }),
  );
});

test('a change of limits that others changed in the meantime is refused, and says which', () => {
  const now = { usdPerMonth: '20', tokensPerDay: 5, models: { 'a/b': { requestsPerMinute: 1 } } };
  const change = { usd_per_month: '30' };
  for (const seen of [
    undefined,
    {},
    { usd_per_month: '20' },
    { usd_per_month: '20', tokens_per_month: null },
    { models: { 'a/b': { requests_per_minute: 1 }, 'c/d': null } },
  ])
    assert.equal(changedLimits(now, change, seen)?.usdPerMonth, '30');
  assert.equal(changedLimits(null, change, null)?.usdPerMonth, '30');
  const refused = (seen: Parameters<typeof changedLimits>[2]) => {
    try {
      changedLimits(now, change, seen);
    } catch (error) {
      assert.ok(error instanceof ServiceError && error.code === 'conflict' && error.param === 'limits');
      return /: (.*)\. Save/.exec(error.message)?.[1];
    }
    return null;
  };
  assert.equal(refused({ usd_per_month: '12.50' }), '`usd_per_month` was 12.50 and is now 20');
  assert.equal(
    refused({ usd_per_month: null, tokens_per_day: 6, tokens_per_month: 7 }),
    [
      '`tokens_per_day` was 6 and is now 5',
      '`tokens_per_month` was 7 and is now not set',
      '`usd_per_month` was not set and is now 20',
    ].join(', '),
  );
  assert.match(refused(null) ?? '', /`models` was not set and is now {a\/b:/);
});

test('an account whose limits are damaged is not one without limits', () => {
  const row = { id: 'acct_1', name: 'Acme', plan: null, status: 'active', created_at: 0 } as const;
  const read = (text: string | null): unknown[] => {
    const { limits: own, limits_damaged: isDamaged } = accountJson({ ...row, limits: text });
    return [own?.tokens_per_day ?? null, isDamaged];
  };
  assert.deepEqual(read(null), [null, false]);
  assert.deepEqual(read('{"tokensPerDay":5}'), [5, false]);
  assert.deepEqual(read('{"tokensPerDay":"x"}'), [null, true]);
});
