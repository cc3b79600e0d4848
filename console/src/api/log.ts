import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import type { Arguments, ItemOf } from './client.ts';
import { withNewest, type Pages } from './newest.ts';
import { pagesKey, useList, useRead } from './queries.ts';

const PAGE = 100;
/** Loads more pages automatically until there are enough matching rows: a page may contain few or none. */
const MIN_ROWS = 20;
const MAX_READS = 50;
const LIVE_MS = 2000;

/**
 * Loads the request log page by page, newest first, with enough rows to fill the window, if there are that many.
 * `refresh()` reloads the newest page, as does a timer while the log is `live`. Without `enabled`, it loads nothing.
 */
export function useLog(
  query: NonNullable<Arguments<'listRequests'>['query']>,
  { live, enabled }: { live: boolean; enabled: boolean },
) {
  const given = { query: { ...query, limit: PAGE } };
  const client = useQueryClient();
  const list = useList('listRequests', given, { still: true, keep: enabled, enabled });
  // The log may be in the cache even if it is not enabled.
  const data = enabled ? list.data : undefined;
  const hasMore = enabled && list.hasMore;
  const newest = useRead('listRequests', given, {
    enabled: live && data !== undefined,
    // Not cached: an older first page would remove newer rows.
    still: true,
    ...(live && { everyMs: LIVE_MS }),
  });
  const { data: page, dataUpdatedAt: readAt } = newest;
  const key = JSON.stringify(given);
  useEffect(() => {
    if (page === undefined) return;
    const parsed = JSON.parse(key) as Arguments<'listRequests'>; // Serialized above.
    client.setQueryData<Pages<ItemOf<'listRequests'>>>(
      pagesKey('listRequests', parsed),
      (pages) => pages && withNewest(pages, page),
      { updatedAt: readAt },
    );
    // Also a page without changes is a newer one.
  }, [client, key, page, readAt]);
  const { isFetching, moreError, more } = list;
  const reads = useRef({ of: '', count: 0 });
  const count = data?.length ?? MIN_ROWS;
  useEffect(() => {
    if (reads.current.of !== key) reads.current = { of: key, count: 0 };
    if (!hasMore || isFetching || moreError !== null) return;
    if (count >= MIN_ROWS || reads.current.count >= MAX_READS) return;
    reads.current.count++;
    more();
  });
  return {
    ...list,
    data,
    hasMore,
    isRefreshing: newest.isFetching,
    /** Why the newest page could not be loaded; null: it was. */
    refreshError: newest.error,
    refresh: () => void newest.refetch(),
  };
}
