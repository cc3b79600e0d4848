import { Layers, Users } from 'lucide-react';
import { useLocation } from 'wouter';
import { Link } from '../components/link.tsx';
import { Menu, MenuChoices, MenuItem, MenuSeparator } from '../components/menu.tsx';
import { rememberAccount, useAccount } from '../state/account.ts';
import { useSession } from '../state/session.tsx';
import { MenuButton } from './menu-button.tsx';

const ROLES = { owner: 'Owner', member: 'Member' } as const;

export function AccountSwitch() {
  const { user } = useSession();
  const account = useAccount();
  const { accounts, choose } = useAccountChoices();
  if (account === null && accounts.length === 0) return null;
  const name = account?.name ?? 'Account not found';
  const hint =
    account === null ? 'Select another one' : account.role === null ? 'Operator' : ROLES[account.role];
  return (
    <Menu
      align="start"
      trigger={
        <MenuButton
          className="border border-line"
          initial={account === null ? '?' : name.slice(0, 1).toUpperCase()}
          look="rounded-md bg-sunken text-ink-2"
          heading={
            <>
              <span className="sr-only">Account: </span>
              {name}
            </>
          }
          hint={hint}
        />
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
