import { useCallback, useMemo } from 'react';
import { useLocation, useSearch } from 'wouter';

/** Null removes a parameter; other parameters stay. */
type Changes = Readonly<Record<string, string | null>>;

/** Parses the query of a URL. Parameters without a value are left out, as if they were not set. */
export function searchParamsOf(search: string): URLSearchParams {
  return new URLSearchParams([...new URLSearchParams(search)].filter(([, value]) => value !== ''));
}

/**
 * Returns the URL query and a function that changes it. Each change adds a history entry unless `replace` is set, which
 * is meant for text input.
 */
export function useQueryState(): [
  query: URLSearchParams,
  change: (changes: Changes, how?: { replace?: boolean }) => void,
] {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const change = useCallback(
    (changes: Changes, how: { replace?: boolean } = {}) => {
      // Reads the current URL, so that two changes in the same tick do not undo each other.
      const query = new URLSearchParams(location.search);
      for (const [name, value] of Object.entries(changes)) {
        if (value === null || value === '') query.delete(name);
        else query.set(name, value);
      }
      navigate(query.size > 0 ? `${path}?${query}` : path, how);
    },
    [path, navigate],
  );
  return [useMemo(() => searchParamsOf(search), [search]), change];
}
