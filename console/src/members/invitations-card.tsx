import { act } from '../api/act.ts';
import type { ItemOf } from '../api/client.ts';
import { useList } from '../api/queries.ts';
import { confirm } from '../components/confirm.tsx';
import { Button } from '../components/button.tsx';
import { Card } from '../components/card.tsx';
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
  {
    name: 'actions',
    heading: 'Actions',
    isControl: true,
    cell: ({ id, email }) => (
      <Button
        size="small"
        aria-label={`Withdraw invitation for ${email}`}
        onClick={() =>
          void confirm({
            title: 'Withdraw this invitation?',
            action: 'Withdraw invitation',
            run: () => act('withdrawInvitation', { params: { id } }, { done: 'Invitation withdrawn' }),
            children: (
              <p>The invitation link for {email} stops working. You can invite them again at any time.</p>
            ),
          })
        }
      >
        Withdraw
      </Button>
    ),
  },
];

/** Pending invitations of an account. Hidden if there are none. */
export function InvitationsCard({ accountId }: { accountId: string }) {
  const invitations = useList('listInvitations', { query: { account_id: accountId } });
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
            <Table label="Pending invitations" columns={COLUMNS} rows={loaded} keyOf={({ id }) => id} />
            {invitations.hasMore && (
              <ListFooter shown={loaded.length} what="invitations" rest={invitations} />
            )}
          </>
        )}
      </Loaded>
    </Card>
  );
}
