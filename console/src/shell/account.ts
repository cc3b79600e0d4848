import { useCallback, useMemo } from 'react';
import { useSearch } from 'wouter';
import { useRead } from '../api/queries.ts';
import { useSession } from './session.tsx';

/** The account whose keys and usage the console shows. */
export interface CurrentAccount {
  id: string;
  name: string;
  /** The user's role in it; null: the user is an operator and not a member. */
  role: 'owner' | 'member' | null;
}

const LAST = 'sluice.account';

/** Returns the account named in the URL, else the last one used, else the first. Null: the user has no account. */
export function useAccount(): CurrentAccount | null {
  const { accounts, user } = useSession();
  const named = new URLSearchParams(useSearch()).get('account');
  const own = useMemo(() => {
    const wanted = named ?? remembered();
    return accounts.find(({ id }) => id === wanted) ?? (named === null ? accounts[0] : undefined);
  }, [accounts, named]);
  const foreign = named !== null && own === undefined && user.operator;
  const found = useRead('getAccount', { params: { id: named ?? '' } }, { enabled: foreign });
  if (own !== undefined) return own;
  if (foreign) return { id: named, name: found.data?.name ?? named, role: null };
  return accounts[0] ?? null;
}

/** Stores the account for the next visit. Its id is not secret. */
export function rememberAccount(id: string): void {
  try {
    localStorage.setItem(LAST, id);
  } catch {
    // Storage is unavailable: the next visit starts with the first account.
  }
}

function remembered(): string | null {
  try {
    return localStorage.getItem(LAST);
  } catch {
    return null;
  }
}

/** Returns a function that adds the account of the current URL to a console path. */
export function useHrefWithAccount(): (to: string) => string {
  const named = new URLSearchParams(useSearch()).get('account');
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
