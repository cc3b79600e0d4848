import { Ellipsis, ScrollText, ShieldMinus, ShieldPlus, Trash2 } from 'lucide-react';
import type { ItemOf } from '../../api/client.ts';
import { Badge } from '../../components/badge.tsx';
import { IconButton } from '../../components/button.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import type { Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { Link } from '../../components/link.tsx';
import type { Change } from './user-change.tsx';

type User = ItemOf<'listUsers'>;

interface ColumnData {
  selfId: string;
  /** Number of operators; null: not all users are loaded yet. */
  operators: number | null;
  onChange: (change: Change) => void;
}

/** The columns of the list of users. */
export function userColumns(data: ColumnData): Column<User>[] {
  return [
    {
      name: 'user',
      heading: 'User',
      grow: true,
      cell: (user) => <Name user={user} self={user.id === data.selfId} />,
    },
    {
      name: 'part',
      heading: 'Role',
      from: 'sm',
      cell: ({ operator }) =>
        operator ? <Badge tone="accent">Operator</Badge> : <span className="text-ink-3">User</span>,
    },
    {
      name: 'two-factor',
      heading: 'Two-factor',
      from: 'md',
      cell: ({ two_factor: hasTwo }) => (hasTwo ? 'On' : <span className="text-ink-3">Off</span>),
    },
    {
      name: 'since',
      heading: 'Created',
      from: 'md',
      cell: ({ created_at: at }) => <Time at={at} relative />,
    },
    {
      name: 'actions',
      heading: <span className="sr-only">Actions</span>,
      cell: (user) => <Actions user={user} {...data} />,
    },
  ];
}

function Name({
  user: { name, email, email_verified: verified, operator },
  self,
}: {
  user: User;
  self: boolean;
}) {
  return (
    <>
      <span className="flex items-center gap-2">
        <span className="truncate font-medium">{name}</span>
        {self && <Badge>You</Badge>}
        {operator && (
          <span className="sm:hidden">
            <Badge tone="accent">Operator</Badge>
          </span>
        )}
      </span>
      <span className="flex items-center gap-2 text-xs text-ink-3">
        <span className="truncate">{email}</span>
        {!verified && <Badge tone="warn">Unverified</Badge>}
      </span>
    </>
  );
}

function Actions({ user, selfId, operators, onChange }: ColumnData & { user: User }) {
  const last = user.operator && operators === 1;
  return (
    <span className="flex justify-end">
      <Menu
        trigger={
          <IconButton label={`Actions for ${user.name}`}>
            <Ellipsis className="size-4" aria-hidden="true" />
          </IconButton>
        }
      >
        <MenuItem icon={<ScrollText />} render={<Link to={`/operator/audit?actor=user:${user.id}`} />}>
          View audit log
        </MenuItem>
        {user.operator ? (
          <MenuItem
            icon={<ShieldMinus />}
            disabled={last}
            onClick={() => onChange({ kind: 'unmake_operator', user })}
          >
            {last ? 'Cannot remove the last operator' : 'Remove operator role'}
          </MenuItem>
        ) : (
          <MenuItem icon={<ShieldPlus />} onClick={() => onChange({ kind: 'make_operator', user })}>
            Make operator
          </MenuItem>
        )}
        <MenuSeparator />
        {user.id === selfId ? (
          <MenuItem icon={<Trash2 />} render={<Link to="/settings" />}>
            Delete in settings
          </MenuItem>
        ) : (
          <MenuItem
            danger
            icon={<Trash2 />}
            disabled={last}
            onClick={() => onChange({ kind: 'delete', user })}
          >
            Delete
          </MenuItem>
        )}
      </Menu>
    </span>
  );
}
