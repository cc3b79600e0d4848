import type { ReactNode } from 'react';
import { Link } from '../../shell/link.tsx';
import { partsOf, type Entry } from './audit-words.ts';
import type { Named } from './names.ts';

type Names = ReadonlyMap<string, Named>;

/** Who did it: a person, a key, somebody at the command line, or the service by itself. */
export function ActorName({ actor, names }: { actor: string; names: Names }) {
  const { kind, id } = partsOf(actor);
  const name = names.get(actor)?.name;
  switch (kind) {
    case 'person':
      return <Name name={name} id={id} />;
    case 'key':
      return (
        <>
          Key <Name name={name} id={id} />
        </>
      );
    case 'cli':
      return (
        <>
          {id} <span className="text-ink-3">at the command line</span>
        </>
      );
    case 'service':
      return <span className="text-ink-2">The service itself</span>;
    case 'visitor':
      return <span className="text-ink-2">A visitor</span>;
    default:
      return actor;
  }
}

/** What it was done to, with a link to where that is seen. */
export function SubjectName({ entry, names }: { entry: Entry; names: Names }) {
  const { subject, account_id: accountId } = entry;
  const { kind, id } = partsOf(subject);
  const to = placeOf(kind, id, accountId);
  // An invitation has no name: the account that it is to has one.
  const named = kind === 'invitation' && accountId !== null ? `account:${accountId}` : subject;
  const name = kind === 'plan' ? id : names.get(named)?.name;
  if (kind === 'person' && id === 'unknown') return <span className="text-ink-3">somebody unknown</span>;
  return to === null ? (
    <Name name={name} id={id} />
  ) : (
    <Link to={to} className="font-medium hover:underline">
      <Name name={name} id={id} />
    </Link>
  );
}

/** Where something is seen in the console; null: nowhere. */
function placeOf(kind: string, id: string, accountId: string | null): string | null {
  switch (kind) {
    case 'account':
      return `/operator/accounts/${id}`;
    case 'key':
      return accountId === null ? null : `/keys?account=${accountId}&key=${id}`;
    case 'person':
      return `/operator/accounts?tab=people&q=${id}`;
    case 'invitation':
      return accountId === null ? null : `/operator/accounts/${accountId}`;
    case 'plan':
      return '/operator/plans';
    default:
      return null;
  }
}

function Name({ name, id }: { name: string | undefined; id: string }): ReactNode {
  return name === undefined ? <span className="font-mono text-xs">{id}</span> : name;
}
