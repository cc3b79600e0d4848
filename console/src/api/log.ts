import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { Arguments, ItemOf } from './client.ts';
import { withNewest, type Pages } from './newest.ts';
import { pagesKey, useList, useRead } from './queries.ts';

/** Loads the request log page by page, newest first. With `liveMs`, the newest page is reloaded at that interval. */
export function useLog(given: Arguments<'listRequests'>, liveMs: number | null) {
  const client = useQueryClient();
  const list = useList('listRequests', given, { still: true, keep: true });
  const newest = useRead('listRequests', given, {
    enabled: liveMs !== null && list.data !== undefined,
    ...(liveMs !== null && { everyMs: liveMs }),
  }).data;
  const key = JSON.stringify(given);
  useEffect(() => {
    if (newest === undefined || liveMs === null) return;
    const parsed = JSON.parse(key) as Arguments<'listRequests'>; // Serialized above.
    client.setQueryData<Pages<ItemOf<'listRequests'>>>(
      pagesKey('listRequests', parsed),
      (pages) => pages && withNewest(pages, newest),
    );
  }, [client, key, newest, liveMs]);
  return list;
}
