import { UserMinus, Users } from 'lucide-react';
import { useState } from 'react';
import type { ItemOf } from '../api/client.ts';
import { useAction, useList } from '../api/queries.ts';
import { Badge } from '../components/badge.tsx';
import { IconButton } from '../components/button.tsx';
import { Card } from '../components/card.tsx';
import { Confirm } from '../components/confirm.tsx';
import { Select } from '../components/select.tsx';
import { Loaded } from '../components/loaded.tsx';
import { EmptyState, SkeletonRows } from '../components/states.tsx';
import { ListFooter, Table, type Column } from '../components/table.tsx';
import { Time } from '../components/time.tsx';
import { UserEmail } from '../components/user-email.tsx';
import { notify } from '../notify.ts';
import { useSession } from '../state/session.tsx';
import { ROLE_CHOICES, ROLES, type Role } from './roles.ts';

type Member = ItemOf<'listMembers'>;

const USER: Column<Member> = {
  name: 'user',
  heading: 'User',
  value: ({ user: { name } }) => name,
  grow: true,
  cell: ({ user }) => <User user={user} />,
};

const ROLE: Column<Member> = {
  name: 'role',
  heading: 'Role',
  value: ({ role }) => ROLES[role].label,
  cell: ({ role }) => ROLES[role].label,
};

const SINCE: Column<Member> = {
  name: 'since',
  heading: 'Joined',
  value: ({ created_at: at }) => at,
  from: 'sm',
  cell: ({ created_at }) => <Time at={created_at} relative />,
};

function roleColumn(onChange: (member: Member, role: Role) => void): Column<Member> {
  return {
    name: 'role',
    heading: 'Role',
    value: ({ role }) => ROLES[role].label,
    cell: (member) => (
      <Select
        small
        label={`Role of ${member.user.name}`}
        className="w-28"
        value={member.role}
        choices={ROLE_CHOICES}
        onChange={(role) => role !== member.role && onChange(member, role)}
      />
    ),
  };
}

function removeColumn(onRemove: (member: Member) => void): Column<Member> {
  return {
    name: 'actions',
    heading: 'Actions',
    isControl: true,
    cell: (member) => (
      <IconButton label={`Remove ${member.user.name}`} onClick={() => onRemove(member)}>
        <UserMinus className="size-4" aria-hidden="true" />
      </IconButton>
    ),
  };
}

function User({ user }: { user: Member['user'] }) {
  const { user: self } = useSession();
  return (
    <>
      <span className="flex items-center gap-2">
        <span className="truncate font-medium">{user.name}</span>
        {user.id === self.id && <Badge tone="accent">You</Badge>}
      </span>
      <UserEmail user={user} />
    </>
  );
}

interface MembersCardProps {
  account: { id: string; name: string };
  /** The user may change roles and remove members. */
  editable: boolean;
  /** Has a heading, for pages that show more than the members. */
  titled?: boolean;
}

/** The members of an account and their roles. */
export function MembersCard({ account, editable, titled = false }: MembersCardProps) {
  const members = useList('listMembers', { params: { id: account.id }, query: {} });
  const [leaving, setLeaving] = useState<Member | null>(null);
  const [changing, setChanging] = useState<RoleChange | null>(null);
  const columns = editable
    ? [USER, roleColumn((member, role) => setChanging({ member, role })), SINCE, removeColumn(setLeaving)]
    : [USER, ROLE, SINCE];
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
      <ChangeRole account={account} change={changing} onClose={() => setChanging(null)} />
      <RemoveMember account={account} member={leaving} onClose={() => setLeaving(null)} />
    </Card>
  );
}

interface RoleChange {
  member: Member;
  role: Role;
}

interface ChangeRoleProps {
  account: { id: string; name: string };
  /** Null: closed. */
  change: RoleChange | null;
  onClose: () => void;
}

function ChangeRole({ account, change, onClose }: ChangeRoleProps) {
  const { user } = useSession();
  const restore = useAction('setMember', {
    changes: ['listMembers', 'getSession'],
    done: ({ user: { name }, role }) => `${name} is ${ROLES[role].noun} again`,
  });
  const { member, role } = change ?? {};
  const self = member?.user.id === user.id;
  const setMember = useAction('setMember', {
    changes: ['listMembers', 'getSession'],
    onSuccess: (changed) => {
      // Owners who made themselves members may no longer change roles.
      const undoable = member !== undefined && (!self || user.operator);
      const params = { id: account.id, user_id: changed.user.id };
      notify.success(
        `${changed.user.name} is now ${ROLES[changed.role].noun}`,
        undoable
          ? { label: 'Undo', run: () => restore.mutate({ params, body: { role: member.role } }) }
          : undefined,
      );
    },
  });
  return (
    <Confirm
      open={change !== null}
      onClose={onClose}
      title={`Make ${self ? 'yourself' : (member?.user.name ?? '')} ${role === undefined ? '' : ROLES[role].noun}?`}
      action="Change role"
      danger={self}
      request={setMember}
      onConfirm={() => {
        if (change === null) return;
        const params = { id: account.id, user_id: change.member.user.id };
        setMember.mutate({ params, body: { role: change.role } }, { onSuccess: onClose });
      }}
    >
      {role === 'owner' ? (
        <p>Owners can invite and remove members of {account.name}, and change their roles.</p>
      ) : (
        <p>
          {self ? 'You' : 'They'} can no longer manage the members of {account.name}.
          {self && ' Only another owner can make you an owner again.'}
        </p>
      )}
    </Confirm>
  );
}

interface RemoveMemberProps {
  account: { id: string; name: string };
  /** Null: closed. */
  member: Member | null;
  onClose: () => void;
}

function RemoveMember({ account, member, onClose }: RemoveMemberProps) {
  const { user } = useSession();
  const restore = useAction('setMember', {
    changes: ['listMembers', 'getSession'],
    done: ({ user: { name }, role }) => `${name} is ${ROLES[role].noun} of ${account.name} again`,
  });
  const remove = useAction('removeMember', {
    changes: ['listMembers', 'getSession'],
    onSuccess: () => {
      if (member === null) return;
      const { user: removed, role } = member;
      const params = { id: account.id, user_id: removed.id };
      notify.success(
        `${removed.name} removed from ${account.name}`,
        // Only operators may add users without an invitation.
        user.operator ? { label: 'Undo', run: () => restore.mutate({ params, body: { role } }) } : undefined,
      );
    },
  });
  const self = member?.user.id === user.id;
  return (
    <Confirm
      open={member !== null}
      onClose={onClose}
      title={self ? `Leave ${account.name}?` : `Remove ${member?.user.name ?? ''}?`}
      action={self ? 'Leave account' : 'Remove member'}
      request={remove}
      onConfirm={() => {
        if (member === null) return;
        remove.mutate({ params: { id: account.id, user_id: member.user.id } }, { onSuccess: onClose });
      }}
    >
      <p>
        {self ? 'You' : 'They'} lose access to the keys, usage and requests of {account.name}. Keys that{' '}
        {self ? 'you' : 'they'} created keep working until they are revoked.
        {!user.operator && ` ${self ? 'You need' : 'They need'} a new invitation to return.`}
      </p>
    </Confirm>
  );
}
