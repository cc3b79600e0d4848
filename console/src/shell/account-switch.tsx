import { ChevronsUpDown, Layers, Users } from 'lucide-react';
import { useLocation } from 'wouter';
import { Menu, MenuChoices, MenuItem, MenuSeparator } from '../components/menu.tsx';
import { rememberAccount, useAccount } from '../state/account.ts';
import { Link } from '../components/link.tsx';
import { useSession } from '../state/session.tsx';

const ROLES = { owner: 'Owner', member: 'Member' } as const;

/** Shows the current account, and a menu to switch to another one. */
export function AccountSwitch() {
  const { user } = useSession();
  const account = useAccount();
  const { accounts, choose } = useAccountChoices();
  if (account === null && accounts.length === 0) return null;
  const name = account?.name ?? 'Account not found';
  return (
    <Menu
      align="start"
      trigger={
        <button
          type="button"
          className="flex h-11 w-full items-center gap-2.5 rounded-lg border border-line px-2 text-left transition-colors hover:bg-hover"
        >
          <span
            className="flex size-7 shrink-0 items-center justify-center rounded-md bg-sunken text-xs font-semibold text-ink-2"
            aria-hidden="true"
          >
            {account === null ? '?' : name.slice(0, 1).toUpperCase()}
          </span>
          <span className="min-w-0 flex-1">
            <span className="sr-only">Account: </span>
            <span className="block truncate text-sm leading-4 font-medium">{name}</span>
            <span className="block truncate text-2xs text-ink-3">
              {account === null
                ? 'Select another one'
                : account.role === null
                  ? 'Operator'
                  : ROLES[account.role]}
            </span>
          </span>
          <ChevronsUpDown className="size-3.5 shrink-0 text-ink-3" />
        </button>
      }
    >
      <MenuChoices
        label="Accounts"
        value={account?.id ?? ''}
        choices={accounts.map(({ id, name }) => ({ value: id, label: name }))}
        onChange={choose}
      />
      <MenuSeparator />
      <MenuItem icon={<Users />} render={<Link to="/members" />}>
        Members
      </MenuItem>
      {user.operator && (
        <MenuItem icon={<Layers />} render={<Link to="/operator/accounts" />}>
          All accounts
        </MenuItem>
      )}
    </Menu>
  );
}

/** Returns the accounts that the user can switch to, and a function that switches to one. */
export function useAccountChoices(): {
  accounts: readonly { id: string; name: string }[];
  choose: (id: string) => void;
} {
  const { accounts } = useSession();
  const account = useAccount();
  const [path, navigate] = useLocation();
  const isOther = account !== null && accounts.every(({ id }) => id !== account.id);
  return {
    accounts: isOther ? [account, ...accounts] : accounts,
    choose: (id) => {
      if (accounts.some((own) => own.id === id)) rememberAccount(id);
      navigate(`${path}?account=${encodeURIComponent(id)}`);
    },
  };
}
