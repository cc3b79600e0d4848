import { useCallback, useMemo } from 'react';
import { useSearch } from 'wouter';
import { useRead } from '../api/queries.ts';
import { useSession } from './session.tsx';

/** The account whose keys and usage are looked at. */
export interface CurrentAccount {
  id: string;
  name: string;
  /** The person's part in it; null: an operator who looks at somebody else's. */
  role: 'owner' | 'member' | null;
}

const LAST = 'sluice.account';

/** The account that the address names, else the one used last, else the first. Null: the person has none. */
export function useAccount(): CurrentAccount | null {
  const { accounts, person } = useSession();
  const named = new URLSearchParams(useSearch()).get('account');
  const own = useMemo(() => {
    const wanted = named ?? remembered();
    return accounts.find(({ id }) => id === wanted) ?? (named === null ? accounts[0] : undefined);
  }, [accounts, named]);
  const foreign = named !== null && own === undefined && person.operator;
  const found = useRead('getAccount', { params: { id: named ?? '' } }, { enabled: foreign });
  if (own !== undefined) return own;
  if (foreign) return { id: named, name: found.data?.name ?? named, role: null };
  return accounts[0] ?? null;
}

/** Keeps the account for the next visit. Its id is no secret. */
export function rememberAccount(id: string): void {
  try {
    localStorage.setItem(LAST, id);
  } catch {
    // Storage is closed to us: the next visit begins with the first account.
  }
}

function remembered(): string | null {
  try {
    return localStorage.getItem(LAST);
  } catch {
    return null;
  }
}

/** Makes addresses within the console that stay with the account named in this one. */
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
