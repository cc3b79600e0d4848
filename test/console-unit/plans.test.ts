import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  assert as check,
  constantFrom,
  dictionary,
  double,
  integer,
  option,
  property,
  record,
  stringMatching,
} from '../support/fast-check.ts';
import { parse } from 'yaml';
import { z } from 'zod';
import { accountsOf } from '../../console/src/pages/plans/closeness.ts';
import { configured, plansYaml, type Plan } from '../../console/src/pages/plans/plan-yaml.ts';
import { planSchema } from '../../src/config/plan.ts';
import { limitsJson } from '../../src/http/api/limits-json.ts';

/** Leaves out undefined values. */
const asJson = (value: object): unknown => JSON.parse(JSON.stringify(value));

describe('plans as YAML', () => {
  const count = integer({ min: 1, max: 1_000_000 });
  const fields = {
    requestsPerMinute: count,
    tokensPerDay: count,
    usdPerMonth: constantFrom('25', '0.50', '007'),
    burst: record({ requests: count, tokens: count }, { requiredKeys: [] }),
  };
  const plan = record(
    {
      ...fields,
      weight: double({ min: 0.01, max: 100, noNaN: true }),
      models: dictionary(
        stringMatching(/^[A-Za-z0-9]{1,4}\/[a-z0-9][a-z0-9._:-]{0,8}$/),
        record(fields, { requiredKeys: [] }),
        { maxKeys: 2 },
      ),
    },
    { requiredKeys: [] },
  );
  // Names that YAML could read as another type are among them.
  const name = constantFrom('free', 'no', 'null', '1', '1e3', '0x1f', 'a-b_c', '1_000', 'true', 'y');

  test('the configuration reads the same plans from them', () => {
    check(
      property(dictionary(name, plan, { noNullPrototype: true }), option(name), (plans, chosen) => {
        const listed = Object.entries(plans).map(([key, { weight = 1, ...limits }]): Plan => {
          return { name: key, default: false, accounts: 0, limits: limitsJson(limits), weight };
        });
        const text = plansYaml(configured(listed), chosen ?? 'free');
        const read = z.object({
          plans: z.record(z.string(), planSchema).nullable(),
          defaultPlan: z.string(),
        });
        const file = read.parse(parse(text));
        assert.equal(file.defaultPlan, chosen ?? 'free');
        for (const [key, { weight = 1, ...limits }] of Object.entries(plans)) {
          const { weight: readWeight = 1, ...readLimits } = file.plans?.[key] ?? {};
          assert.deepEqual(asJson(limitsJson(readLimits)), asJson(limitsJson(limits)));
          assert.equal(readWeight, weight);
        }
        assert.equal(Object.keys(file.plans ?? {}).length, listed.length);
      }),
    );
  });

  test('a plan that is not in the configuration is not written', () => {
    const missing = { name: 'old', default: false, accounts: 1, limits: null, weight: null };
    assert.equal(plansYaml(configured([missing]), 'free'), 'plans:\ndefaultPlan: free\n');
  });
});

test('the accounts of a plan are ordered by how close they are to a limit per day or month', () => {
  const account = (id: string, plan: string | null, status: 'active' | 'closed' = 'active') => ({
    id,
    name: id,
    plan,
    limits: null,
    status,
    created_at: '',
  });
  const accounts = [
    account('a', null),
    account('b', 'free'),
    account('c', 'pro'),
    account('d', 'free', 'closed'),
  ];
  const limits = { tokens_per_day: 100, tokens_per_month: 1000, usd_per_month: '10', requests_per_minute: 1 };
  const free: Plan = { name: 'free', default: true, accounts: 2, limits, weight: 1 };
  type Usage = Parameters<typeof accountsOf>[2];
  // Only these sums are read.
  const usage = {
    day: new Map([['b', { billed_tokens: 30 }]]),
    month: new Map([
      ['a', { billed_tokens: 100, cost_usd: '5.5' }],
      ['b', { billed_tokens: 400, cost_usd: '1' }],
    ]),
  } as unknown as Usage;
  assert.deepEqual(
    accountsOf(free, accounts, usage).map(({ account: { id }, closest }) => [id, closest]),
    [
      ['a', { limit: 'usd_per_month', used: '5.5', bound: '10', share: 0.55 }],
      ['b', { limit: 'tokens_per_month', used: 400, bound: 1000, share: 0.4 }],
    ],
  );
  // Of a bound of 0, nothing is left.
  const nothing = { tokens_per_day: 100, usd_per_month: '0.00' };
  assert.deepEqual(
    accountsOf({ ...free, limits: nothing }, accounts, usage).map(({ closest }) => closest),
    ['5.5', '1'].map((used) => ({ limit: 'usd_per_month', used, bound: '0.00', share: 1 })),
  );
  assert.equal(
    accountsOf({ ...free, limits: nothing }, accounts, { ...usage, month: new Map() })[0]?.closest?.share,
    1,
  );
  const pro: Plan = { ...free, name: 'pro', default: false, limits: {} };
  assert.deepEqual(accountsOf(pro, accounts, usage), [{ account: accounts[2], closest: null }]);
});
