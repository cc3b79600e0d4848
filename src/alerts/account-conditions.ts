import { sql } from 'kysely';
import { halfSums, wholeSum } from '../accounts/ledger/cost.ts';
import { dayOf } from '../accounts/ledger/days.ts';
import { endOf } from '../accounts/limits/calendar.ts';
import { KINDS } from '../accounts/limits/kinds.ts';
import { nanoOfPico, nanoOfUsd, usdOfNano } from '../accounts/limits/money.ts';
import type { Plans } from '../accounts/plans.ts';
import type { LimitName, PlanLimits } from '../config/plan.ts';
import type { Database } from '../database/database.ts';
import { conditionOf, type Condition } from './types.ts';

/** Accounts per query. */
const ACCOUNTS = 200;
/** Maximum keys that are about to expire. Further ones follow as those expire. */
const MAX_KEYS = 500;
/** And those of one account. */
const MAX_KEYS_PER_ACCOUNT = 50;
const DAY_MS = 86_400_000;

/** The share of a budget at which its first alert fires. */
const FIRST_SHARE = 0.8;

/** The usage of an account in the current UTC day and month, for one model or all. */
export interface PeriodUsage {
  dayTokens: number;
  monthTokens: number;
  monthPico: bigint;
}

export interface AccountUsage {
  id: string;
  name: string;
  /** By model. */
  models: ReadonlyMap<string, PeriodUsage>;
}

/** Returns the conditions of the budgets of these accounts. Accounts that are not active have none. */
export async function budgetConditions(
  database: Pick<Database, 'reports'>,
  plans: Plans,
  accountIds: readonly string[],
  now: number,
): Promise<Condition[]> {
  const found: Condition[] = [];
  for (let start = 0; start < accountIds.length; start += ACCOUNTS) {
    const accounts = await readUsage(database, accountIds.slice(start, start + ACCOUNTS), now);
    for (const { plan, ...account } of accounts) {
      const limits = plans.of(plan)?.limits;
      if (limits !== undefined) found.push(...budgetsOf(account, limits, now));
    }
  }
  return found;
}

/** Returns the conditions of the budgets of an account. What running requests have reserved does not count. */
export function budgetsOf(
  account: AccountUsage,
  { models = {}, ...all }: PlanLimits,
  now: number,
): Condition[] {
  const scopes: [model: string | null, limits: Omit<PlanLimits, 'models'>, usage: PeriodUsage][] = [
    [null, all, total([...account.models.values()])],
    ...Object.entries(models).map(
      ([model, limits]) =>
        [model, limits, total([account.models.get(model) ?? NONE])] as (typeof scopes)[number],
    ),
  ];
  return scopes.flatMap(([model, limits, usage]) =>
    KINDS.flatMap(({ name: limit, unit, window }) => {
      const configured = limits[limit];
      if (configured === undefined || (window !== 'day' && window !== 'month')) return [];
      const bound = typeof configured === 'string' ? nanoOfUsd(configured) : configured;
      const used = amountOf(usage, limit);
      if (used < FIRST_SHARE * bound) return [];
      const period = new Date(now).toISOString().slice(0, window === 'day' ? 10 : 7);
      const text = (amount: number) =>
        unit === 'usd' ? `$${usdOfNano(amount)}` : `${amount.toLocaleString('en-US')} ${unit}`;
      return [
        conditionOf(
          used >= bound ? 'budget_100' : 'budget_80',
          `${account.id}:${limit}:${model ?? ''}:${period}`,
          {
            accountName: account.name,
            limit,
            model,
            used: text(used),
            bound: text(bound),
            percent: bound === 0 ? 100 : Math.floor((100 * used) / bound),
            resetsAt: endOf(window, now),
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

const NONE: PeriodUsage = { dayTokens: 0, monthTokens: 0, monthPico: 0n };

function total(all: readonly PeriodUsage[]): PeriodUsage {
  return all.reduce(
    (sum, each) => ({
      dayTokens: sum.dayTokens + each.dayTokens,
      monthTokens: sum.monthTokens + each.monthTokens,
      monthPico: sum.monthPico + each.monthPico,
    }),
    NONE,
  );
}

/** In the unit in which the limit counts: tokens or nano-dollars. */
function amountOf({ dayTokens, monthTokens, monthPico }: PeriodUsage, limit: LimitName): number {
  if (limit === 'usdPerMonth') return nanoOfPico(monthPico);
  return limit === 'tokensPerDay' ? dayTokens : monthTokens;
}

async function readUsage(
  { reports }: Pick<Database, 'reports'>,
  accountIds: readonly string[],
  now: number,
): Promise<(AccountUsage & { plan: string | null })[]> {
  const date = new Date(now);
  const today = dayOf(now);
  const firstDay = dayOf(Date.UTC(date.getUTCFullYear(), date.getUTCMonth()));
  const accounts = await reports
    .selectFrom('accounts')
    .select(['id', 'name', 'plan'])
    .where('id', 'in', accountIds)
    .where('status', '=', 'active')
    .execute();
  if (accounts.length === 0) return [];
  const { rows } = await sql<{
    account_id: string;
    model: string;
    day_tokens: string;
    month_tokens: string;
    high_pico: string;
    low_pico: string;
  }>`
    select account_id, model,
      cast(sum(case when day = ${today} then billed_tokens else 0 end) as text) as day_tokens,
      cast(sum(billed_tokens) as text) as month_tokens, ${sql.raw(halfSums('cost_pico'))}
    from usage_days
    where account_id in (${sql.join(accounts.map(({ id }) => id))}) and day between ${firstDay} and ${today}
    group by account_id, model`.execute(reports);
  const ofAccount = Map.groupBy(rows, ({ account_id: id }) => id);
  return accounts.map(({ id, name, plan }) => ({
    id,
    name,
    plan,
    models: new Map(
      (ofAccount.get(id) ?? []).map((row) => [
        row.model,
        {
          dayTokens: Number(row.day_tokens),
          monthTokens: Number(row.month_tokens),
          monthPico: wholeSum(row),
        },
      ]),
    ),
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
