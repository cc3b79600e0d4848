import { useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import type { Arguments, Element } from './client.ts';
import { withNewest, type Pages } from './newest.ts';
import { pagesKey, useList, useRead } from './queries.ts';

/**
 * The log of requests, the newest first, page after page. While it is live the newest page is read every so many
 * milliseconds and laid on top.
 */
export function useLog(given: Arguments<'listRequests'>, liveMs: number | null) {
  const client = useQueryClient();
  const list = useList('listRequests', given, { still: true, keep: true });
  const newest = useRead('listRequests', given, {
    enabled: liveMs !== null && list.items !== undefined,
    ...(liveMs !== null && { everyMs: liveMs }),
  }).data;
  const key = JSON.stringify(given);
  useEffect(() => {
    if (newest === undefined || liveMs === null) return;
    const asked = JSON.parse(key) as Arguments<'listRequests'>; // As it was written above.
    client.setQueryData<Pages<Element<'listRequests'>>>(
      pagesKey('listRequests', asked),
      (pages) => pages && withNewest(pages, newest),
    );
  }, [client, key, newest, liveMs]);
  return list;
}
