import type { z } from 'zod';
import { getAccount } from '../../accounts/accounts.ts';
import { readAccess, getKey, noSuchKey } from '../../accounts/key-table.ts';
import { usdText } from '../../accounts/ledger/cost.ts';
import { readRecentCounts, type RecentCounts } from '../../accounts/ledger/history.ts';
import { readUsagePage } from '../../accounts/ledger/usage.ts';
import { unitOf } from '../../accounts/limits/kinds.ts';
import type { LimitStatus } from '../../accounts/limits/limiter.ts';
import { withUsageNames } from '../../accounts/names.ts';
import { readLimits } from '../../accounts/plans.ts';
import { parseUsageQuery } from '../../accounts/usage-query.ts';
import { ServiceError } from '../../core/errors.ts';
import { apiName } from './contract/limits.ts';
import { usageOperations, type limitStatus } from './contract/usage.ts';
import { endpoints } from './endpoint.ts';
import { iso, pageJson } from './json.ts';

export const usageEndpoints = endpoints(usageOperations, {
  readUsage: async ({ database, signal, accountId, query }) => {
    const range = parseUsageQuery(query, Date.now());
    const filter = { accountId, keyId: query.key_id, model: query.model, client: query.client };
    const { rows, nextCursor } = await readUsagePage(database, { ...range, ...filter }, { signal });
    return { data: await withUsageNames(database, rows), next_cursor: nextCursor };
  },
  readLimits: async ({ database, plans, limiter, query }) => {
    const account = await getAccount(database, query.account_id);
    const key = query.key_id === undefined ? null : await getKey(database, query.key_id);
    if (key !== null && key.account_id !== account.id) throw noSuchKey();
    const own = readLimits(account.limits);
    if (own === undefined) {
      const message =
        'The own limits of this account are damaged, so its requests are refused. Set them again.';
      throw new ServiceError('conflict', message, { param: 'account_id' });
    }
    const plan = plans.of(account.plan, own);
    if (plan === null) {
      throw new ServiceError('not_found', 'The plan of this account is not in the configuration.', {
        param: 'account_id',
      });
    }
    const items = await limiter.status({
      accountId: account.id,
      keyId: key?.id ?? '',
      model: query.model ?? '',
      plan: own === null ? plan.name : null,
      planLimits: plan.limits,
      keyLimits: (key && readAccess(key)?.limits) ?? null,
    });
    const recent = items.some(({ perMinute }) => perMinute !== null)
      ? await readRecentCounts(database, account.id, Date.now() - MINUTE_MS)
      : [];
    return pageJson({ items, nextCursor: null }, (status) =>
      limitStatusJson(status, lastMinute(status, recent, key?.id)),
    );
  },
});

const MINUTE_MS = 60_000;

type LimitStatusJson = z.input<typeof limitStatus>;

/** Returns how much of a limit was used in the last minute; null if the limit is not per minute. */
function lastMinute(
  { scope, model, limit, perMinute }: LimitStatus,
  recent: readonly RecentCounts[],
  keyId: string | undefined,
): LimitStatusJson['last_minute'] {
  if (perMinute === null) return null;
  const used = recent
    .filter((usage) => scope === 'account' || usage.key_id === keyId)
    .filter((usage) => model === null || usage.model === model)
    .reduce((sum, usage) => sum + (unitOf(limit) === 'requests' ? usage.requests : usage.tokens), 0);
  return { used, bound: perMinute };
}

function limitStatusJson(
  { scope, model, limit, bound, used, reserved, resetsAt }: LimitStatus,
  last_minute: LimitStatusJson['last_minute'],
): LimitStatusJson {
  // The status of a limit counts money in micro-dollars, rounded up.
  const amount = (value: number) => (unitOf(limit) === 'usd' ? usdText(BigInt(value) * 1_000_000n) : value);
  return {
    scope,
    model,
    limit: apiName(limit),
    bound: amount(bound),
    used: amount(used),
    reserved: amount(reserved),
    resets_at: iso(resetsAt),
    last_minute,
  };
}
