import { Ellipsis, ScrollText, ShieldMinus, ShieldPlus, Trash2 } from 'lucide-react';
import type { ItemOf } from '../../api/client.ts';
import { Badge } from '../../components/badge.tsx';
import { IconButton } from '../../components/button.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import type { Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { Link } from '../../shell/link.tsx';
import type { Change } from './person-change.tsx';

type Person = ItemOf<'listPeople'>;

interface ColumnData {
  selfId: string;
  /** Number of operators; null: not all users are loaded yet. */
  operators: number | null;
  onChange: (change: Change) => void;
}

/** The columns of the list of users. */
export function peopleColumns(data: ColumnData): Column<Person>[] {
  return [
    {
      name: 'person',
      heading: 'User',
      grow: true,
      cell: (person) => <Name person={person} self={person.id === data.selfId} />,
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
      cell: (person) => <Actions person={person} {...data} />,
    },
  ];
}

function Name({ person: { name, email, operator }, self }: { person: Person; self: boolean }) {
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
      <span className="block truncate text-xs text-ink-3">{email}</span>
    </>
  );
}

function Actions({ person, selfId, operators, onChange }: ColumnData & { person: Person }) {
  const last = person.operator && operators === 1;
  return (
    <span className="flex justify-end">
      <Menu
        trigger={
          <IconButton label={`Actions for ${person.name}`}>
            <Ellipsis className="size-4" aria-hidden="true" />
          </IconButton>
        }
      >
        <MenuItem icon={<ScrollText />} render={<Link to={`/operator/audit?actor=person:${person.id}`} />}>
          View audit log
        </MenuItem>
        {person.operator ? (
          <MenuItem
            icon={<ShieldMinus />}
            disabled={last}
            onClick={() => onChange({ kind: 'unmake_operator', person })}
          >
            {last ? 'Cannot remove the last operator' : 'Remove operator role'}
          </MenuItem>
        ) : (
          <MenuItem icon={<ShieldPlus />} onClick={() => onChange({ kind: 'make_operator', person })}>
            Make operator
          </MenuItem>
        )}
        <MenuSeparator />
        {person.id === selfId ? (
          <MenuItem icon={<Trash2 />} render={<Link to="/settings" />}>
            Delete in settings
          </MenuItem>
        ) : (
          <MenuItem
            danger
            icon={<Trash2 />}
            disabled={last}
            onClick={() => onChange({ kind: 'delete', person })}
          >
            Delete
          </MenuItem>
        )}
      </Menu>
    </span>
  );
}
