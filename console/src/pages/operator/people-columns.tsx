import { Ellipsis, ScrollText, ShieldMinus, ShieldPlus, Trash2 } from 'lucide-react';
import type { Element } from '../../api/client.ts';
import { Badge } from '../../components/badge.tsx';
import { IconButton } from '../../components/button.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import type { Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { Link } from '../../shell/link.tsx';
import type { Change } from './person-change.tsx';

type Person = Element<'listPeople'>;

interface Known {
  selfId: string;
  /** How many operators there are; null: not all people are read yet. */
  operators: number | null;
  onAsk: (change: Change) => void;
}

/** The columns of the list of people. */
export function peopleColumns(known: Known): Column<Person>[] {
  return [
    {
      name: 'person',
      heading: 'Person',
      grow: true,
      cell: (person) => <Name person={person} self={person.id === known.selfId} />,
    },
    {
      name: 'part',
      heading: 'May manage the service',
      from: 'sm',
      cell: ({ operator }) =>
        operator ? <Badge tone="accent">Operator</Badge> : <span className="text-ink-3">No</span>,
    },
    {
      name: 'two-factor',
      heading: 'Second factor',
      from: 'md',
      cell: ({ two_factor: hasTwo }) => (hasTwo ? 'On' : <span className="text-ink-3">Off</span>),
    },
    { name: 'since', heading: 'Since', from: 'md', cell: ({ created_at: at }) => <Time at={at} relative /> },
    {
      name: 'actions',
      heading: <span className="sr-only">Actions</span>,
      cell: (person) => <Actions person={person} {...known} />,
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

function Actions({ person, selfId, operators, onAsk }: Known & { person: Person }) {
  const last = person.operator && operators === 1;
  return (
    <span className="flex justify-end">
      <Menu
        trigger={
          <IconButton label={`What to do with ${person.name}`}>
            <Ellipsis className="size-4" aria-hidden="true" />
          </IconButton>
        }
      >
        <MenuItem icon={<ScrollText />} render={<Link to={`/operator/audit?actor=person:${person.id}`} />}>
          What they did
        </MenuItem>
        {person.operator ? (
          <MenuItem
            icon={<ShieldMinus />}
            disabled={last}
            onClick={() => onAsk({ kind: 'unmake_operator', person })}
          >
            {last ? 'The last operator stays one' : 'Make no operator any more'}
          </MenuItem>
        ) : (
          <MenuItem icon={<ShieldPlus />} onClick={() => onAsk({ kind: 'make_operator', person })}>
            Make an operator
          </MenuItem>
        )}
        <MenuSeparator />
        {person.id === selfId ? (
          <MenuItem icon={<Trash2 />} render={<Link to="/settings" />}>
            Delete yourself in the settings
          </MenuItem>
        ) : (
          <MenuItem
            danger
            icon={<Trash2 />}
            disabled={last}
            onClick={() => onAsk({ kind: 'delete', person })}
          >
            Delete
          </MenuItem>
        )}
      </Menu>
    </span>
  );
}
