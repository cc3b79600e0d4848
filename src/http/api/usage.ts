import { z } from 'zod';
import { getAccount } from '../../accounts/accounts.ts';
import { getKey, noSuchKey } from '../../accounts/key-table.ts';
import { usdText } from '../../accounts/ledger/cost.ts';
import { readUsage, USAGE_DIMENSIONS } from '../../accounts/ledger/usage.ts';
import type { LimitStanding } from '../../accounts/limits/limits.ts';
import { usageQuestion } from '../../accounts/usage-question.ts';
import { ServiceError } from '../../errors.ts';
import { endpoint, type Endpoint } from './endpoint.ts';
import { limitFields, usageJson, usageRow } from './ledger-json.ts';
import { LIMIT_WORDS } from './limits-json.ts';
import { component, filterText, id, iso, pageJson, pageOf, time } from './schemas.ts';

const standing = component(
  'LimitStanding',
  z.object({
    ...limitFields,
    used: limitFields.bound,
    resets_at: time.nullable().describe('When it is whole again; null for requests in flight.'),
  }),
);

const day = z.string().meta({ format: 'date' });

/** What was used, and what is left. */
export const usageEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'GET',
    path: '/api/usage',
    operationId: 'readUsage',
    summary: 'Sum up what was used, by day, model, key or account. A day is one in UTC.',
    query: z.strictObject({
      by: z
        .string()
        .optional()
        .describe(`Any of ${USAGE_DIMENSIONS.join(', ')}, with commas between. Left out: one sum of all.`),
      from: day.optional().describe('The first day. Left out: the first of this month.'),
      to: day.optional().describe('The day after the last one. Left out: tomorrow.'),
      account_id: id.optional(),
      key_id: id.optional(),
      model: filterText.optional(),
    }),
    answer: pageOf('UsagePage', usageRow),
    handle: async ({ database, query }) => {
      const items = await readUsage(database, {
        ...usageQuestion(query, Date.now()),
        accountId: query.account_id,
        keyId: query.key_id,
        model: query.model,
      });
      return pageJson({ items, nextCursor: null }, usageJson);
    },
  }),
  endpoint({
    method: 'GET',
    path: '/api/limits',
    operationId: 'readLimits',
    summary: "Tell how an account's limits stand now, and with a key its own.",
    query: z.strictObject({
      account_id: id,
      key_id: id.optional().describe('A key of the account.'),
      model: filterText.optional().describe('Tell the limits of this model too.'),
    }),
    answer: pageOf('LimitPage', standing),
    errors: ['not_found'],
    handle: async ({ database, plans, limits, query }) => {
      const account = await getAccount(database, query.account_id);
      const key = query.key_id === undefined ? null : await getKey(database, query.key_id);
      if (key !== null && key.accountId !== account.id) throw noSuchKey();
      const plan = plans.of(account.plan);
      if (plan === null) {
        throw new ServiceError('not_found', 'The configuration has lost the plan of this account.', {
          param: 'account_id',
        });
      }
      const items = await limits.standing({
        accountId: account.id,
        keyId: key?.id ?? '',
        model: query.model ?? '',
        plan: plan.name,
        planLimits: plan.limits,
        keyLimits: key?.limits ?? null,
      });
      return pageJson({ items, nextCursor: null }, standingJson);
    },
  }),
];

function standingJson({
  scope,
  model,
  limit,
  bound,
  used,
  resetsAt,
}: LimitStanding): z.input<typeof standing> {
  // Limits hold money in micro-dollars.
  const amount = (value: number) => (limit === 'usdPerMonth' ? usdText(BigInt(value) * 1_000_000n) : value);
  return {
    scope,
    model,
    limit: LIMIT_WORDS[limit],
    bound: amount(bound),
    used: amount(used),
    resets_at: iso(resetsAt),
  };
}
