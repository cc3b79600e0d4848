import { useRead, useReads } from './queries.ts';

/** Maximum number of names loaded with one list. */
const MAX_NAMES = 1000;
/** Maximum number of keys loaded one by one. */
const MAX_SINGLE = 30;

/** Returns the name of an id; the id itself while the name is unknown. */
type NameOf = (id: string) => string;

/** Loads the keys of an account, or of all accounts if the query is empty. Playground keys are not included. */
export function useKeys(query: { account_id?: string }, options: { enabled?: boolean } = {}) {
  return useRead('listKeys', { query: { ...query, limit: MAX_NAMES } }, options);
}

/** Returns the names of these keys, including playground keys. */
export function useKeyNames(query: { account_id?: string }, ids: readonly string[]): NameOf {
  const list = useKeys(query);
  const names = new Map(list.data?.data.map(({ id, name }) => [id, name]));
  const others = list.isPending ? [] : [...new Set(ids)].filter((id) => !names.has(id)).slice(0, MAX_SINGLE);
  const found = useReads(
    'getKey',
    others.map((id) => ({ params: { id } })),
  );
  for (const { data: key } of found) if (key) names.set(key.id, key.name);
  return (id) => names.get(id) ?? id;
}

/** Returns the names of all accounts. For operators. */
export function useAccountNames(enabled: boolean): NameOf {
  const list = useRead('listAccounts', { query: { limit: MAX_NAMES } }, { enabled });
  const names = new Map(list.data?.data.map(({ id, name }) => [id, name]));
  return (id) => names.get(id) ?? id;
}
