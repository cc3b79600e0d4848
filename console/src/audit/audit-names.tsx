import { type ReactNode, useMemo } from 'react';
import { useRead } from '../api/queries.ts';
import { Link } from '../components/link.tsx';
import { LoadFailure } from '../components/loaded.tsx';
import { partsOf, type Entry } from './audit-texts.ts';

type Names = ReadonlyMap<string, Named>;

/** The actor of an entry: a user, a key, a command-line user, a visitor or the service. */
export function ActorName({ actor, names }: { actor: string; names: Names }) {
  const { kind, id } = partsOf(actor);
  const name = names.get(actor)?.name;
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
export function SubjectName({ entry, names }: { entry: Entry; names: Names }) {
  const { subject, account_id: accountId } = entry;
  const { kind, id } = partsOf(subject);
  const to = pathOf(kind, id, accountId);
  // An invitation has no name: show its account.
  const named = kind === 'invitation' && accountId !== null ? `account:${accountId}` : subject;
  const name = kind === 'plan' ? id : names.get(named)?.name;
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

function Name({ name, id }: { name: string | undefined; id: string }): ReactNode {
  return name === undefined ? <span className="font-mono text-xs">{id}</span> : name;
}

/** Maximum page size of the API; anything beyond the first page is shown by id. */
const PAGE = 1000;

/** The name of an actor or subject of the audit log. */
export interface Named {
  name: string;
  /** Distinguishes it from others with the same name. */
  hint: string;
}

/** Returns names by `user:<id>`, `account:<id>` and `key:<id>`. Names that are not loaded yet are missing. */
export function useNames(): ReadonlyMap<string, Named> {
  const { accounts, users, keys } = useNamed();
  return useMemo(
    () =>
      new Map<string, Named>([
        ...(accounts.data?.data ?? []).map(({ id, name }) => [`account:${id}`, { name, hint: id }] as const),
        ...(users.data?.data ?? []).map(
          ({ id, name, email }) => [`user:${id}`, { name, hint: email }] as const,
        ),
        ...(keys.data?.data ?? []).map(
          ({ id, name, last_four: lastFour }) => [`key:${id}`, { name, hint: `…${lastFour}` }] as const,
        ),
      ]),
    [accounts.data, users.data, keys.data],
  );
}

/** Says which names could not be loaded; nothing otherwise. */
export function NamesFailure() {
  const { accounts, users, keys } = useNamed();
  return (
    <div className="space-y-2 p-3 empty:hidden sm:px-5">
      <LoadFailure query={accounts} what="the names of accounts" />
      <LoadFailure query={users} what="the names of users" />
      <LoadFailure query={keys} what="the names of keys" />
    </div>
  );
}

function useNamed() {
  return {
    accounts: useRead('listAccounts', { query: { limit: PAGE } }),
    users: useRead('listUsers', { query: { limit: PAGE } }),
    keys: useRead('listKeys', { query: { limit: PAGE } }),
  };
}
