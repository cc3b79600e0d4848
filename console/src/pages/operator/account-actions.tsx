import { Ban, CirclePause, CirclePlay, Ellipsis, Gauge, Pencil } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../../components/button.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import type { Account } from './account-labels.tsx';
import { ChangePlan, RenameAccount } from './change-account.tsx';
import { ChangeStatus } from './change-status.tsx';

/** The account that owns keys created without an account. It cannot be closed. */
const DEFAULT_ACCOUNT = 'default';

type Dialog = 'rename' | 'plan' | Account['status'];

/** The menu of account actions and their dialogs. */
export function AccountActions({ account }: { account: Account }) {
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const close = () => setDialog(null);
  const { status } = account;
  if (status === 'closed') return null;
  return (
    <>
      <Menu trigger={<Button icon={<Ellipsis className="size-4" aria-hidden="true" />}>Actions</Button>}>
        <MenuItem icon={<Pencil />} onClick={() => setDialog('rename')}>
          Rename
        </MenuItem>
        <MenuItem icon={<Gauge />} onClick={() => setDialog('plan')}>
          Change plan
        </MenuItem>
        <MenuSeparator />
        {status === 'active' ? (
          <MenuItem icon={<CirclePause />} onClick={() => setDialog('suspended')}>
            Suspend
          </MenuItem>
        ) : (
          <MenuItem icon={<CirclePlay />} onClick={() => setDialog('active')}>
            Resume
          </MenuItem>
        )}
        {account.id !== DEFAULT_ACCOUNT && (
          <MenuItem danger icon={<Ban />} onClick={() => setDialog('closed')}>
            Close account
          </MenuItem>
        )}
      </Menu>
      <RenameAccount account={account} open={dialog === 'rename'} onClose={close} />
      <ChangePlan account={account} open={dialog === 'plan'} onClose={close} />
      <ChangeStatus
        account={account}
        to={dialog === 'rename' || dialog === 'plan' ? null : dialog}
        onClose={close}
      />
    </>
  );
}
