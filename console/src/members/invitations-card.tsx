import { useState } from 'react';
import type { ItemOf } from '../api/client.ts';
import { useAction, useList } from '../api/queries.ts';
import { Button } from '../components/button.tsx';
import { Card } from '../components/card.tsx';
import { Confirm } from '../components/confirm.tsx';
import { Loaded } from '../components/loaded.tsx';
import { ListFooter, Table, type Column } from '../components/table.tsx';
import { Time } from '../components/time.tsx';
import { ROLES } from './roles.ts';

type Invitation = ItemOf<'listInvitations'>;

const COLUMNS: readonly Column<Invitation>[] = [
  {
    name: 'email',
    heading: 'Email',
    grow: true,
    cell: ({ email, role, expires_at }) => (
      <>
        <span className="block truncate font-medium">{email}</span>
        <span className="block truncate text-xs text-ink-3">
          {ROLES[role].label}
          <span className="sm:hidden">
            , expires <Time at={expires_at} relative />
          </span>
        </span>
      </>
    ),
  },
  {
    name: 'invited',
    heading: 'Invited',
    from: 'md',
    cell: ({ created_at }) => <Time at={created_at} relative />,
  },
  {
    name: 'expires',
    heading: 'Expires',
    from: 'sm',
    cell: ({ expires_at }) => <Time at={expires_at} relative />,
  },
];

function withdrawColumn(onWithdraw: (invitation: Invitation) => void): Column<Invitation> {
  return {
    name: 'actions',
    heading: 'Actions',
    isControl: true,
    cell: (invitation) => (
      <Button
        size="small"
        aria-label={`Withdraw invitation for ${invitation.email}`}
        onClick={() => onWithdraw(invitation)}
      >
        Withdraw
      </Button>
    ),
  };
}

/** Pending invitations of an account. Hidden if there are none. */
export function InvitationsCard({ accountId }: { accountId: string }) {
  const invitations = useList('listInvitations', { query: { account_id: accountId } });
  const [withdrawn, setWithdrawn] = useState<Invitation | null>(null);
  const withdraw = useAction('withdrawInvitation', {
    changes: ['listInvitations'],
    done: 'Invitation withdrawn',
  });
  const { data, error } = invitations;
  if ((data === undefined && error === null) || data?.length === 0) return null;
  return (
    <Card
      title="Pending invitations"
      hint="Each invitation is for one email address and expires after 7 days."
      flush
    >
      <Loaded query={invitations}>
        {(loaded) => (
          <>
            <Table
              label="Pending invitations"
              columns={[...COLUMNS, withdrawColumn(setWithdrawn)]}
              rows={loaded}
              keyOf={({ id }) => id}
            />
            {invitations.hasMore && (
              <ListFooter shown={loaded.length} what="invitations" rest={invitations} />
            )}
          </>
        )}
      </Loaded>
      <Confirm
        open={withdrawn !== null}
        onClose={() => setWithdrawn(null)}
        title="Withdraw this invitation?"
        action="Withdraw invitation"
        request={withdraw}
        onConfirm={() => {
          if (withdrawn !== null)
            withdraw.mutate({ params: { id: withdrawn.id } }, { onSuccess: () => setWithdrawn(null) });
        }}
      >
        <p>
          The invitation link for {withdrawn?.email} stops working. You can invite them again at any time.
        </p>
      </Confirm>
    </Card>
  );
}
