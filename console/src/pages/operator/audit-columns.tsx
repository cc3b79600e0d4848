import type { ReactNode } from 'react';
import type { Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { ActorName, SubjectName } from './audit-names.tsx';
import { actionLabel, type Entry } from './action-labels.ts';
import type { Named } from './names.ts';

type Names = ReadonlyMap<string, Named>;

/** The columns of the audit log; `onOpen` shows the details of an entry. */
export function auditColumns(names: Names, onOpen: (entry: Entry) => void): Column<Entry>[] {
  return [
    {
      name: 'what',
      heading: 'Event',
      grow: true,
      cell: (entry) => <EventCell entry={entry} names={names} onOpen={onOpen} />,
    },
    {
      name: 'who',
      heading: 'Actor',
      from: 'md',
      cell: ({ actor }) => (
        <Truncated>
          <ActorName actor={actor} names={names} />
        </Truncated>
      ),
    },
    {
      name: 'account',
      heading: 'Account',
      from: 'lg',
      cell: ({ account_id: id }) =>
        id === null ? <span className="text-ink-3">—</span> : <Truncated>{nameOf(id, names)}</Truncated>,
    },
    { name: 'ip', heading: 'IP address', from: 'xl', cell: ({ ip }) => <IpAddress ip={ip} /> },
    { name: 'at', heading: 'Time', numeric: true, from: 'sm', cell: ({ at }) => <Time at={at} /> },
  ];
}

const nameOf = (accountId: string, names: Names): string =>
  names.get(`account:${accountId}`)?.name ?? accountId;

/** One truncated line; the details show the full text. */
function Truncated({ children }: { children: ReactNode }) {
  return <span className="block max-w-48 truncate">{children}</span>;
}

interface EventCellProps {
  entry: Entry;
  names: Names;
  onOpen: (entry: Entry) => void;
}

function EventCell({ entry, names, onOpen }: EventCellProps) {
  return (
    <span className="block truncate">
      <button type="button" className="text-left hover:underline" onClick={() => onOpen(entry)}>
        {actionLabel(entry.action)}
      </button>{' '}
      <SubjectName entry={entry} names={names} />
      <span className="block truncate text-xs text-ink-3 md:hidden">
        <ActorName actor={entry.actor} names={names} />
        <span className="sm:hidden">
          , <Time at={entry.at} />
        </span>
      </span>
    </span>
  );
}

/** The IP address of the actor; null: the command line or the service. */
export function IpAddress({ ip }: { ip: string | null }) {
  if (ip === null) return <span className="text-ink-3">Local</span>;
  return <span className="font-mono text-xs">{ip}</span>;
}
