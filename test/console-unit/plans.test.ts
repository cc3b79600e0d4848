import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accountsOf, type Plan } from '../../console/src/pages/plans/closeness.ts';

test('the accounts of a plan are ordered by how close they are to a limit per day or month', () => {
  const account = (id: string, plan: string | null, status: 'active' | 'closed' = 'active') => ({
    id,
    name: id,
    plan,
    limits: null,
    limits_damaged: false,
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
  // Limits of the account take the place of those of the plan.
  const own = [{ ...account('b', 'free'), limits: { tokens_per_month: 500 } }];
  assert.deepEqual(accountsOf(free, own, usage)[0]?.closest?.bound, 500);
  const pro: Plan = { ...free, name: 'pro', default: false, limits: {} };
  assert.deepEqual(accountsOf(pro, accounts, usage), [{ account: accounts[2], closest: null }]);
});
