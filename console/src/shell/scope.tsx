import { Segmented } from '../components/choices.tsx';
import { useAccount, useNamedAccount, type CurrentAccount } from './account.ts';
import { useQueryState } from './query.ts';
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

const NAME = 'scope';

/** Returns the current account, or all accounts if an operator chose them, or has no account and the URL names none. */
export function useScope(): Scope {
  const { user } = useSession();
  const account = useAccount();
  const named = useNamedAccount();
  const [query] = useQueryState();
  const hasNone = account === null && named === null;
  const all = user.operator && (hasNone || query.get(NAME) === 'all');
  return {
    account: all ? null : account,
    all,
    query: all || account === null ? {} : { account_id: account.id },
  };
}

/** Returns the URL parameters of a scope. */
export const scopeInQuery = ({ all }: Scope): Record<string, string> => (all ? { [NAME]: 'all' } : {});

/** Lets operators switch between the current account and all accounts. */
export function ScopeSwitch() {
  const { user } = useSession();
  const account = useAccount();
  const { all } = useScope();
  const [, change] = useQueryState();
  if (!user.operator || account === null) return null;
  return (
    <Segmented
      label="Accounts"
      value={all ? 'all' : 'one'}
      choices={[
        { value: 'one', label: <span className="max-w-32 truncate">{account.name}</span> },
        { value: 'all', label: 'All accounts' },
      ]}
      onChange={(value) => change({ [NAME]: value === 'all' ? 'all' : null, key: null })}
    />
  );
}
