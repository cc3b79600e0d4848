import { useCallback, useEffect } from 'react';
import { useSearch } from 'wouter';
import { useRead } from '../api/queries.ts';
import { useSession } from './session.tsx';
import { readText, writeText } from './storage.ts';
import { searchParamsOf, useQueryState } from './url-query.ts';

export interface CurrentAccount {
  id: string;
  name: string;
  /** The user's role in it; null: the user is an operator and not a member. */
  role: 'owner' | 'member' | null;
}

const LAST = 'sluice.account';

/** ID of the account that this tab shows if the URL names none. Other tabs never change it. */
let ofTab = readText(LAST, 'sessionStorage', 'localStorage');

/**
 * Returns the account named in the URL, else the last one of this tab, else the first. Null: the user has no account, or
 * cannot access the one in the URL.
 */
export function useAccount(): CurrentAccount | null {
  const { accounts, user } = useSession();
  const named = useNamedAccount();
  const wanted = named ?? ofTab;
  const own = accounts.find(({ id }) => id === wanted) ?? (named === null ? accounts[0] : undefined);
  const isForeign = named !== null && own === undefined && user.operator;
  const found = useRead('getAccount', { params: { id: named ?? '' } }, { enabled: isForeign });
  useEffect(() => {
    if (own !== undefined) keepInTab(own.id);
  }, [own]);
  if (own !== undefined) return own;
  if (!isForeign || found.error?.status === 404) return null;
  return { id: named, name: found.data?.name ?? named, role: null };
}

/** Returns the ID of the account in the URL; null: none. */
export function useNamedAccount(): string | null {
  return searchParamsOf(useSearch()).get('account');
}

/** Stores the account for this tab and for the next visit. Its ID is not secret. */
export function rememberAccount(id: string): void {
  keepInTab(id);
  // If the storage is unavailable, the next visit starts with the first account.
  writeText('localStorage', LAST, id);
}

function keepInTab(id: string): void {
  ofTab = id;
  // If the storage is unavailable, a reload starts with the first account.
  writeText('sessionStorage', LAST, id);
}

/** Returns a function that adds the account of the current URL to a console path. */
export function useHrefWithAccount(): (to: string) => string {
  const named = useNamedAccount();
  return useCallback(
    (to) => {
      const [address = '', fragment] = to.split('#');
      const [path = '', query = ''] = address.split('?');
      const search = new URLSearchParams(query);
      if (named === null || search.has('account')) return to;
      search.set('account', named);
      return `${path}?${search}${fragment === undefined ? '' : `#${fragment}`}`;
    },
    [named],
  );
}

/** The accounts whose usage and requests a page shows. */
export interface Scope {
  /** Null: all accounts, or the user has no account or cannot access the one in the URL. */
  account: CurrentAccount | null;
  /** All accounts; operators only. */
  all: boolean;
  /** Query parameters for the management API. */
  query: { account_id?: string };
}

export const SCOPE = 'scope';

/** Returns the current account, or all accounts if an operator chose them, or has no account and the URL names none. */
export function useScope(): Scope {
  const { user } = useSession();
  const account = useAccount();
  const named = useNamedAccount();
  const [query] = useQueryState();
  const hasNone = account === null && named === null;
  const all = user.operator && (hasNone || query.get(SCOPE) === 'all');
  return {
    account: all ? null : account,
    all,
    query: all || account === null ? {} : { account_id: account.id },
  };
}

/** Returns the scope of pages about the whole service: all accounts for operators, else like `useScope`. */
export function useServiceScope(): Scope {
  const { user } = useSession();
  const own = useScope();
  return user.operator ? { account: null, all: true, query: {} } : own;
}

export const scopeInQuery = ({ all }: Scope): Record<string, string> => (all ? { [SCOPE]: 'all' } : {});
