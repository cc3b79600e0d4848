import { useMemo } from 'react';
import { useRead } from '../../api/queries.ts';

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
  const accounts = useRead('listAccounts', { query: { limit: PAGE } });
  const users = useRead('listUsers', { query: { limit: PAGE } });
  const keys = useRead('listKeys', { query: { limit: PAGE } });
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
