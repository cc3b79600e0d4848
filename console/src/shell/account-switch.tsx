import { useLocation } from 'wouter';
import { Select } from '../components/select.tsx';
import { rememberAccount, useAccount } from './account.ts';
import { useSession } from './session.tsx';

/** Shows the current account and lets the user switch to another one. */
export function AccountSwitch() {
  const { accounts } = useSession();
  const account = useAccount();
  const [path, navigate] = useLocation();
  if (account === null) return null;
  const all = accounts.some(({ id }) => id === account.id) ? accounts : [account, ...accounts];
  if (all.length === 1) {
    return (
      <p className="truncate px-2 text-xs text-ink-3">
        <span className="sr-only">Account: </span>
        {account.name}
      </p>
    );
  }
  return (
    <Select
      label="Account"
      small
      className="w-full"
      value={account.id}
      choices={all.map(({ id, name }) => ({ value: id, label: name }))}
      onChange={(id) => {
        if (accounts.some((own) => own.id === id)) rememberAccount(id);
        navigate(`${path}?account=${encodeURIComponent(id)}`);
      }}
    />
  );
}
