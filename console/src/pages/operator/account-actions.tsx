import { Ban, CirclePause, CirclePlay, Ellipsis, Gauge, Pencil } from 'lucide-react';
import { useState } from 'react';
import { Button } from '../../components/button.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import type { Account } from './account-words.tsx';
import { ChangePlan, RenameAccount } from './change-account.tsx';
import { ChangeStatus } from './change-status.tsx';

/** Keys belong to it unless they are told otherwise: it cannot be closed. */
const DEFAULT_ACCOUNT = 'default';

type Asked = 'rename' | 'plan' | Account['status'];

/** What can be done with an account; each asks first or opens a form. */
export function AccountActions({ account }: { account: Account }) {
  const [asked, setAsked] = useState<Asked | null>(null);
  const none = () => setAsked(null);
  const { status } = account;
  if (status === 'closed') return null;
  return (
    <>
      <Menu trigger={<Button icon={<Ellipsis className="size-4" aria-hidden="true" />}>Change</Button>}>
        <MenuItem icon={<Pencil />} onClick={() => setAsked('rename')}>
          Rename
        </MenuItem>
        <MenuItem icon={<Gauge />} onClick={() => setAsked('plan')}>
          Change plan
        </MenuItem>
        <MenuSeparator />
        {status === 'active' ? (
          <MenuItem icon={<CirclePause />} onClick={() => setAsked('suspended')}>
            Suspend
          </MenuItem>
        ) : (
          <MenuItem icon={<CirclePlay />} onClick={() => setAsked('active')}>
            Resume
          </MenuItem>
        )}
        {account.id !== DEFAULT_ACCOUNT && (
          <MenuItem danger icon={<Ban />} onClick={() => setAsked('closed')}>
            Close for ever
          </MenuItem>
        )}
      </Menu>
      <RenameAccount account={account} open={asked === 'rename'} onClose={none} />
      <ChangePlan account={account} open={asked === 'plan'} onClose={none} />
      <ChangeStatus
        account={account}
        to={asked === 'rename' || asked === 'plan' ? null : asked}
        onClose={none}
      />
    </>
  );
}
