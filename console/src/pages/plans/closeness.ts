import type { ItemOf } from '../../api/client.ts';
import { isMoney, limitsSet, windowOf, type LimitName, type LimitWindow } from '../../format/limits.ts';

export type Plan = ItemOf<'listPlans'>;
type Account = ItemOf<'listAccounts'>;
type Usage = ItemOf<'readUsage'>;

/** How much an account has used of a limit per day or month, of its own or of its plan. */
interface Closeness {
  limit: LimitName;
  /** Tokens, or USD as a decimal string. */
  used: number | string;
  bound: number | string;
  /** `used` over `bound`; 1 for a bound of 0, of which nothing is left. */
  share: number;
}

export interface AccountOfPlan {
  account: Account;
  /** The limit that it is closest to; null: it has no limits per day or month. */
  closest: Closeness | null;
}

/** Usage since the start of each window in UTC, by account. */
export type UsageOfAccounts = Readonly<Record<LimitWindow, ReadonlyMap<string, Usage>>>;

/** Returns usage by account. */
export const byAccount = (rows: readonly Usage[]): ReadonlyMap<string, Usage> =>
  new Map(rows.map((row) => [row.account_id ?? '', row]));

/** Returns the accounts on a plan that are not closed, those that are closest to a limit first. */
export function accountsOf(
  plan: Plan,
  accounts: readonly Account[],
  usage: UsageOfAccounts,
): AccountOfPlan[] {
  return accounts
    .filter(
      ({ plan: assigned, status }) =>
        status !== 'closed' && (assigned === null ? plan.default : assigned === plan.name),
    )
    .map((account) => ({ account, closest: closestLimit(plan, account, usage) }))
    .toSorted((a, b) => (b.closest?.share ?? -1) - (a.closest?.share ?? -1));
}

function closestLimit(
  { limits }: Plan,
  { id, limits: own }: Account,
  usage: UsageOfAccounts,
): Closeness | null {
  const all = limitsSet({ ...limits, ...own }).flatMap(({ limit, bound }): Closeness[] => {
    const window = windowOf(limit);
    if (window === null) return [];
    const row = usage[window].get(id);
    const used = isMoney(limit) ? (row?.cost_usd ?? '0') : (row?.billed_tokens ?? 0);
    return [{ limit, used, bound, share: Number(bound) > 0 ? Number(used) / Number(bound) : 1 }];
  });
  return all.toSorted((a, b) => b.share - a.share)[0] ?? null;
}
