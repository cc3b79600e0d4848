import { useRead, useReads } from './queries.ts';

/** Most keys or accounts whose names are read at once. */
const MOST = 1000;
/** Most further keys that are asked for one by one. */
const MOST_SINGLE = 30;

/** A name for an id; the id itself until the name is known. */
type NameOf = (id: string) => string;

interface Named {
  id: string;
  name: string;
}

/** The keys of an account, or for operators, where the query is empty, of all; those of the playground left out. */
export function useKeys(query: { account_id?: string }): readonly Named[] {
  return useRead('listKeys', { query: { ...query, limit: MOST } }).data?.data ?? [];
}

/** The names of these keys, those of the playground too. */
export function useKeyNames(query: { account_id?: string }, ids: readonly string[]): NameOf {
  const list = useRead('listKeys', { query: { ...query, limit: MOST } });
  const names = new Map(list.data?.data.map(({ id, name }) => [id, name]));
  const others = list.isPending ? [] : [...new Set(ids)].filter((id) => !names.has(id)).slice(0, MOST_SINGLE);
  const found = useReads(
    'getKey',
    others.map((id) => ({ params: { id } })),
  );
  for (const key of found) if (key) names.set(key.id, key.name);
  return (id) => names.get(id) ?? id;
}

/** The names of all accounts, for operators. */
export function useAccountNames(enabled: boolean): NameOf {
  const list = useRead('listAccounts', { query: { limit: MOST } }, { enabled });
  const names = new Map(list.data?.data.map(({ id, name }) => [id, name]));
  return (id) => names.get(id) ?? id;
}
