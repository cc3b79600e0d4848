import { useMemo } from 'react';
import { useRead } from '../../api/queries.ts';

/** Most that one answer has; who is not among the first of a kind is shown by id. */
const PAGE = 1000;

/** Somebody or something that the audit log names: `person:<id>`, `account:<id>`, `key:<id>`. */
export interface Named {
  name: string;
  /** What tells it from others of the same name. */
  hint: string;
}

/** What ids are called, where that is known by now. */
export function useNames(): ReadonlyMap<string, Named> {
  const accounts = useRead('listAccounts', { query: { limit: PAGE } });
  const people = useRead('listPeople', { query: { limit: PAGE } });
  const keys = useRead('listKeys', { query: { limit: PAGE } });
  return useMemo(
    () =>
      new Map<string, Named>([
        ...(accounts.data?.data ?? []).map(({ id, name }) => [`account:${id}`, { name, hint: id }] as const),
        ...(people.data?.data ?? []).map(
          ({ id, name, email }) => [`person:${id}`, { name, hint: email }] as const,
        ),
        ...(keys.data?.data ?? []).map(
          ({ id, name, last_four: lastFour }) => [`key:${id}`, { name, hint: `…${lastFour}` }] as const,
        ),
      ]),
    [accounts.data, people.data, keys.data],
  );
}
