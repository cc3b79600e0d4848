import { useAccount, useNamedAccount, type CurrentAccount } from './account.ts';
import { useQueryState } from './url-query.ts';
import { useSession } from './session.tsx';

/** The accounts whose usage and requests a page shows. */
export interface Scope {
  /** Null: all accounts, or the user has no account or cannot access the one in the URL. */
  account: CurrentAccount | null;
  /** All accounts; operators only. */
  all: boolean;
  /** Query parameters for the management API. */
  query: { account_id?: string };
}

/** Name of the URL parameter. */
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

/** Returns the URL parameters of a scope. */
export const scopeInQuery = ({ all }: Scope): Record<string, string> => (all ? { [SCOPE]: 'all' } : {});
