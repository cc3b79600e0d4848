import type { ReactNode } from 'react';
import { Link } from '../components/link.tsx';
import { partsOf, type Entry } from './audit-texts.ts';

/** The actor of an entry: a user, a key, a command-line user, a visitor or the service. */
export function ActorName({ entry: { actor, actor_name: name } }: { entry: Entry }) {
  const { kind, id } = partsOf(actor);
  switch (kind) {
    case 'user':
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
          {id} <span className="text-ink-3">via command line</span>
        </>
      );
    case 'service':
      return <span className="text-ink-2">Service</span>;
    case 'visitor':
      return <span className="text-ink-2">Visitor</span>;
    default:
      return actor;
  }
}

/** The subject of an entry, with a link to its page. */
export function SubjectName({ entry }: { entry: Entry }) {
  const { subject, account_id: accountId } = entry;
  const { kind, id } = partsOf(subject);
  const to = pathOf(kind, id, accountId);
  // An invitation has no name: show its account.
  const name = kind === 'plan' ? id : kind === 'invitation' ? entry.account_name : entry.subject_name;
  if (kind === 'user' && id === 'unknown') return <span className="text-ink-3">unknown user</span>;
  return to === null ? (
    <Name name={name} id={id} />
  ) : (
    <Link to={to} className="font-medium hover:underline">
      <Name name={name} id={id} />
    </Link>
  );
}

/** Returns the console path of a subject; null: it has no page. */
function pathOf(kind: string, id: string, accountId: string | null): string | null {
  switch (kind) {
    case 'account':
      return `/operator/accounts/${id}`;
    case 'key':
      return accountId === null ? null : `/keys?account=${accountId}&key=${id}`;
    case 'user':
      return `/operator/accounts?tab=users&q=${id}`;
    case 'invitation':
      return accountId === null ? null : `/operator/accounts/${accountId}`;
    case 'plan':
      return '/operator/plans';
    default:
      return null;
  }
}

function Name({ name, id }: { name: string | null; id: string }): ReactNode {
  return name === null ? <span className="font-mono text-xs">{id}</span> : name;
}
