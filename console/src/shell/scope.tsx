import { Segmented } from '../components/choices.tsx';
import { useAccount, type CurrentAccount } from './account.ts';
import { useQueryState } from './query.ts';
import { useSession } from './session.tsx';

/** Whose usage and requests are looked at. */
export interface Scope {
  /** Null: all accounts together, or that of somebody who has none. */
  account: CurrentAccount | null;
  /** All accounts together, which operators alone may see. */
  all: boolean;
  /** What the service is asked with. */
  query: { account_id?: string };
}

const NAME = 'scope';

/** The account that is looked at, or for operators, where the address says so or they have none, all of them. */
export function useScope(): Scope {
  const { person } = useSession();
  const account = useAccount();
  const [query] = useQueryState();
  const all = person.operator && (account === null || query.get(NAME) === 'all');
  return {
    account: all ? null : account,
    all,
    query: all || account === null ? {} : { account_id: account.id },
  };
}

/** What the address of a page says so with. */
export const scopeInQuery = ({ all }: Scope): Record<string, string> => (all ? { [NAME]: 'all' } : {});

/** Lets operators choose between an account and all of them. */
export function ScopeSwitch() {
  const { person } = useSession();
  const account = useAccount();
  const { all } = useScope();
  const [, change] = useQueryState();
  if (!person.operator || account === null) return null;
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
