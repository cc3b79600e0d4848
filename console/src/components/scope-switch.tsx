import { SCOPE, useAccount, useScope } from '../state/account.ts';
import { useSession } from '../state/session.tsx';
import { useQueryState } from '../state/url-query.ts';
import { Segmented } from './choices.tsx';

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
      onChange={(value) => change({ [SCOPE]: value === 'all' ? 'all' : null, key: null })}
    />
  );
}
