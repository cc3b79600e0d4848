import { UserMinus, Users } from 'lucide-react';
import { act, orToast } from '../api/act.ts';
import type { ItemOf } from '../api/client.ts';
import { useList } from '../api/queries.ts';
import { UserCell } from '../components/badge.tsx';
import { Button, IconButton } from '../components/button.tsx';
import { Card } from '../components/card.tsx';
import { confirm } from '../components/confirm.tsx';
import { EmptyState, Loaded, SkeletonRows } from '../components/states.tsx';
import { ListFooter, Table, textColumn, timeColumn, type Column } from '../components/table.tsx';
import { Time } from '../components/time.tsx';
import { notify } from '../notify.ts';
import { useSession, type SignedIn } from '../state/session.tsx';
import { ROLES } from './roles.ts';

type Member = ItemOf<'listMembers'>;

const USER: Column<Member> = {
  name: 'user',
  heading: 'User',
  value: ({ user: { name } }) => name,
  grow: true,
  cell: ({ user }) => <UserCell user={user} />,
};

const ROLE = textColumn<Member>({ name: 'role', heading: 'Role' }, ({ role }) => ROLES[role].label);

const SINCE = timeColumn<Member>(
  { name: 'since', heading: 'Joined', from: 'sm' },
  ({ created_at: at }) => at,
);

function removeColumn(onRemove: (member: Member) => void): Column<Member> {
  return {
    name: 'actions',
    heading: 'Actions',
    isControl: true,
    cell: (member) => (
      <IconButton label={`Remove ${member.user.name}`} onClick={() => onRemove(member)}>
        <UserMinus />
      </IconButton>
    ),
  };
}

interface MembersCardProps {
  account: { id: string; name: string };
  editable: boolean;
  /** Has a heading, for pages that show more than the members. */
  titled?: boolean;
}

export function MembersCard({ account, editable, titled = false }: MembersCardProps) {
  const members = useList('listMembers', { params: { id: account.id }, query: {} });
  const { user } = useSession();
  const remove = removeColumn((member) => void removeMember(account, member, user));
  const columns = editable ? [USER, ROLE, SINCE, remove] : [USER, ROLE, SINCE];
  return (
    <Card {...(titled && { title: 'Members', hint: 'Users with access to this account' })} flush>
      <Loaded
        query={members}
        loading={<SkeletonRows rows={3} />}
        empty={
          <EmptyState icon={Users} title="No members yet">
            Invite users to let them view usage and create keys. The keys of the account work without any
            members.
          </EmptyState>
        }
      >
        {(loaded) => (
          <>
            <Table
              label="Members"
              id="members"
              sortable
              rest={members}
              columns={columns}
              rows={loaded}
              keyOf={({ user: { id } }) => id}
            />
            {members.hasMore && <ListFooter shown={loaded.length} what="members" rest={members} />}
          </>
        )}
      </Loaded>
    </Card>
  );
}

async function removeMember(
  account: MembersCardProps['account'],
  { user: { id, name }, role }: Member,
  by: SignedIn['user'],
): Promise<void> {
  const self = id === by.id;
  const params = { id: account.id, user_id: id };
  const removed = await confirm({
    title: self ? `Leave ${account.name}?` : `Remove ${name}?`,
    action: self ? 'Leave account' : 'Remove member',
    run: () => act('removeMember', { params }),
    children: (
      <p>
        {self ? 'You' : 'They'} lose access to the keys, usage and requests of {account.name}. Keys that{' '}
        {self ? 'you' : 'they'} created keep working until they are revoked.
        {!by.operator && ` ${self ? 'You need' : 'They need'} a new invitation to return.`}
      </p>
    ),
  });
  if (!removed) return;
  const done = `${name} is ${ROLES[role].noun} of ${account.name} again`;
  const restore = () => void orToast(act('setMember', { params, body: { role } }, { done }));
  // Only operators may add users without an invitation.
  notify.success(
    `${name} removed from ${account.name}`,
    by.operator ? { label: 'Undo', run: restore } : undefined,
  );
}

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
  timeColumn({ name: 'invited', heading: 'Invited', from: 'md' }, ({ created_at: at }) => at),
  timeColumn({ name: 'expires', heading: 'Expires', from: 'sm' }, ({ expires_at: at }) => at),
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
