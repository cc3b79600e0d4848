import type { ReactNode } from 'react';
import type { Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { ActorName, SubjectName } from './audit-names.tsx';
import { actionWords, type Entry } from './audit-words.ts';
import type { Named } from './names.ts';

type Names = ReadonlyMap<string, Named>;

/** The columns of the log; `onOpen` shows all that an entry says. */
export function auditColumns(names: Names, onOpen: (entry: Entry) => void): Column<Entry>[] {
  return [
    {
      name: 'what',
      heading: 'What',
      grow: true,
      cell: (entry) => <What entry={entry} names={names} onOpen={onOpen} />,
    },
    {
      name: 'who',
      heading: 'Who',
      from: 'md',
      cell: ({ actor }) => (
        <Cut>
          <ActorName actor={actor} names={names} />
        </Cut>
      ),
    },
    {
      name: 'account',
      heading: 'Account',
      from: 'lg',
      cell: ({ account_id: id }) =>
        id === null ? <span className="text-ink-3">–</span> : <Cut>{nameOf(id, names)}</Cut>,
    },
    { name: 'ip', heading: 'From', from: 'xl', cell: ({ ip }) => <From ip={ip} /> },
    { name: 'at', heading: 'When', numeric: true, from: 'sm', cell: ({ at }) => <Time at={at} /> },
  ];
}

const nameOf = (accountId: string, names: Names): string =>
  names.get(`account:${accountId}`)?.name ?? accountId;

/** One line; what does not fit is in the details. */
function Cut({ children }: { children: ReactNode }) {
  return <span className="block max-w-48 truncate">{children}</span>;
}

interface WhatProps {
  entry: Entry;
  names: Names;
  onOpen: (entry: Entry) => void;
}

function What({ entry, names, onOpen }: WhatProps) {
  return (
    <span className="block truncate">
      <button type="button" className="text-left hover:underline" onClick={() => onOpen(entry)}>
        {actionWords(entry.action)}
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

/** Where it was done from. */
export function From({ ip }: { ip: string | null }) {
  if (ip === null) return <span className="text-ink-3">this machine</span>;
  return <span className="font-mono text-xs">{ip}</span>;
}
