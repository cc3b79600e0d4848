import { useCallback, useMemo } from 'react';
import { useLocation, useSearch } from 'wouter';

/** Null takes a name out of the query; names that are left out stay. */
type Changes = Readonly<Record<string, string | null>>;

/**
 * The query of the address, and how to change it. Each change is a step that leads back, unless it is to `replace`
 * the last one: while somebody types.
 */
export function useQueryState(): [
  query: URLSearchParams,
  change: (changes: Changes, how?: { replace?: boolean }) => void,
] {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const change = useCallback(
    (changes: Changes, how: { replace?: boolean } = {}) => {
      // Of the address as it is now: two changes of the same moment do not undo each other.
      const query = new URLSearchParams(location.search);
      for (const [name, value] of Object.entries(changes)) {
        if (value === null || value === '') query.delete(name);
        else query.set(name, value);
      }
      navigate(query.size > 0 ? `${path}?${query}` : path, how);
    },
    [path, navigate],
  );
  return [useMemo(() => new URLSearchParams(search), [search]), change];
}
