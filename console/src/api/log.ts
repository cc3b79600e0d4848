import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { Arguments, ItemOf } from './client.ts';
import { withNewest, type Pages } from './newest.ts';
import { pagesKey, useList, useRead } from './queries.ts';

/**
 * Loads the request log page by page, newest first. `refresh()` reloads the newest page, as it is at the interval
 * `liveMs`.
 */
export function useLog(given: Arguments<'listRequests'>, liveMs: number | null) {
  const client = useQueryClient();
  const list = useList('listRequests', given, { still: true, keep: true });
  const newest = useRead('listRequests', given, {
    enabled: liveMs !== null && list.data !== undefined,
    // Not cached: an older first page would remove newer rows.
    still: true,
    ...(liveMs !== null && { everyMs: liveMs }),
  });
  const page = newest.data;
  const key = JSON.stringify(given);
  useEffect(() => {
    if (page === undefined) return;
    const parsed = JSON.parse(key) as Arguments<'listRequests'>; // Serialized above.
    client.setQueryData<Pages<ItemOf<'listRequests'>>>(
      pagesKey('listRequests', parsed),
      (pages) => pages && withNewest(pages, page),
    );
  }, [client, key, page]);
  return { ...list, isRefreshing: newest.isFetching, refresh: () => void newest.refetch() };
}
