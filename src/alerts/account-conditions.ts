import { sql } from 'kysely';
import { halfSums, wholeSum } from '../accounts/ledger/cost.ts';
import { dayOf } from '../accounts/ledger/days.ts';
import { calendarAt, windowsOf } from '../accounts/ledger/history.ts';
import { CALENDAR, periodAround } from '../accounts/limits/calendar.ts';
import { sumHistory } from '../accounts/limits/history.ts';
import type { HistoryEntry } from '../accounts/limits/limiter.ts';
import { nanoOfUsd, usdOfNano } from '../accounts/limits/money.ts';
import { readLimits, type Plans } from '../accounts/plans.ts';
import type { PlanLimits } from '../config/plan.ts';
import type { Database } from '../database/database.ts';
import { conditionOf, type Condition } from '../core/alert-types.ts';

/** Accounts per query. */
const ACCOUNTS = 200;
/** Maximum keys that are about to expire. Further ones follow as those expire. */
const MAX_KEYS = 500;
/** And those of one account. */
const MAX_KEYS_PER_ACCOUNT = 50;
const DAY_MS = 86_400_000;

/** The share of a budget at which its first alert fires. */
const FIRST_SHARE = 0.8;

/** Returns the conditions of the budgets of these accounts. Accounts that are not active have none. */
export async function budgetConditions(
  database: Pick<Database, 'reports'>,
  plans: Plans,
  accountIds: readonly string[],
  now: number,
): Promise<Condition[]> {
  const found: Condition[] = [];
  for (let start = 0; start < accountIds.length; start += ACCOUNTS) {
    const accounts = await readConsumption(database, accountIds.slice(start, start + ACCOUNTS), now);
    for (const { plan, limits: text, consumption, ...account } of accounts) {
      const own = readLimits(text);
      // The requests of an account whose limits are damaged are refused.
      const limits = own === undefined ? undefined : plans.of(plan, own)?.limits;
      if (limits !== undefined) found.push(...budgetsOf(account, consumption, limits, now));
    }
  }
  return found;
}

/** Returns the conditions of the budgets of an account. What running requests have reserved does not count. */
export function budgetsOf(
  account: { id: string; name: string },
  consumption: readonly HistoryEntry[],
  { models = {}, ...all }: PlanLimits,
  now: number,
): Condition[] {
  const scopes: [model: string | null, limits: Omit<PlanLimits, 'models'>][] = [
    [null, all],
    ...Object.entries(models),
  ];
  return scopes.flatMap(([model, limits]) =>
    sumHistory(consumption, null, model).flatMap(({ kind: { name: limit, unit, window }, settled: used }) => {
      const configured = limits[limit];
      if (configured === undefined || window === 'minute' || window === 'running') return [];
      const bound = typeof configured === 'string' ? nanoOfUsd(configured) : configured;
      if (used === 0 || used < FIRST_SHARE * bound) return [];
      const { fromMs, toMs } = periodAround(window, now);
      const period = new Date(fromMs).toISOString().slice(0, window === 'month' ? 7 : 10);
      const text = (amount: number) =>
        unit === 'usd' ? `$${usdOfNano(amount)}` : `${amount.toLocaleString('en-US')} ${unit}`;
      const budget = `${CALENDAR[window].adjective} ${unit === 'usd' ? 'budget' : unit}`;
      return [
        conditionOf(
          used >= bound ? 'budget_100' : 'budget_80',
          // A new limit can be reached again.
          `${account.id}:${limit}:${model ?? ''}:${period}:${configured}`,
          {
            accountName: account.name,
            budget: model === null ? budget : `${budget} for ${model}`,
            used: text(used),
            bound: text(bound),
            percent: bound === 0 ? 100 : Math.floor((100 * used) / bound),
            resetsAt: toMs,
          },
        ),
      ];
    }),
  );
}

/** Returns the account of a condition of a budget. */
export function accountOfBudget(condition: string): string | null {
  return /^budget_(?:80|100):([^:]+):/.exec(condition)?.[1] ?? null;
}

async function readConsumption(
  { reports }: Pick<Database, 'reports'>,
  accountIds: readonly string[],
  now: number,
): Promise<
  { id: string; name: string; plan: string | null; limits: string | null; consumption: HistoryEntry[] }[]
> {
  const accounts = await reports
    .selectFrom('accounts')
    .select(['id', 'name', 'plan', 'limits'])
    .where('id', 'in', accountIds)
    .where('status', '=', 'active')
    .execute();
  if (accounts.length === 0) return [];
  const { fromMs, toMs, windows } = calendarAt(now);
  const { rows } = await sql<{
    account_id: string;
    model: string;
    windows: string;
    tokens: string;
    high_pico: string;
    low_pico: string;
  }>`
    select account_id, model, ${windows(sql`day`)}, cast(sum(billed_tokens) as text) as tokens,
      ${sql.raw(halfSums('cost_pico'))}
    from usage_days
    where account_id in (${sql.join(accounts.map(({ id }) => id))}) and day >= ${dayOf(fromMs)} and day < ${dayOf(toMs)}
    group by 1, 2, 3`.execute(reports);
  const ofAccount = Map.groupBy(rows, ({ account_id: id }) => id);
  return accounts.map((account) => ({
    ...account,
    consumption: (ofAccount.get(account.id) ?? []).map((row) => ({
      keyId: '',
      model: row.model,
      state: 'settled',
      windows: windowsOf(row.windows),
      requests: 0,
      tokens: Number(row.tokens),
      pico: wholeSum(row),
    })),
  }));
}

/**
 * Returns the conditions of the keys that expire within `days`. Keys that had less time from the start are left out, and
 * so are those of the playground and of accounts that are not active.
 */
export async function keyConditions(
  { reports }: Pick<Database, 'reports'>,
  days: number,
  now: number,
): Promise<Condition[]> {
  const expiring = reports
    .selectFrom('keys')
    .innerJoin('accounts', 'accounts.id', 'keys.account_id')
    .select(['keys.id', 'keys.name', 'keys.prefix', 'keys.expires_at', 'accounts.name as account_name'])
    .select(
      // An account with many keys must not hide those of others.
      sql<number>`row_number() over (partition by keys.account_id order by keys.expires_at, keys.id)`.as(
        'nth',
      ),
    )
    .where('keys.expires_at', '>', now)
    .where('keys.expires_at', '<=', now + days * DAY_MS)
    .where(sql<boolean>`keys.created_at < keys.expires_at - ${days * DAY_MS}`)
    .where('keys.revoked_at', 'is', null)
    .where('keys.purpose', '=', 'api')
    .where('accounts.status', '=', 'active');
  const rows = await reports
    .selectFrom(expiring.as('expiring'))
    .selectAll()
    .where('nth', '<=', MAX_KEYS_PER_ACCOUNT)
    .orderBy('expires_at')
    .limit(MAX_KEYS)
    .execute();
  return rows.map(({ id, name, prefix: keyPrefix, expires_at: expiry, account_name: accountName }) => {
    const expiresAt = expiry ?? now;
    // By the day, because members can change the expiry as often as they want.
    const day = new Date(expiresAt).toISOString().slice(0, 10);
    return conditionOf('key_expiring', `${id}:${day}`, { keyName: name, keyPrefix, accountName, expiresAt });
  });
}
