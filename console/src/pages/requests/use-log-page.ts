import { useEffect, useRef } from 'react';
import type { Arguments } from '../../api/client.ts';
import { useLog } from '../../api/log.ts';

/** Page size. */
const PAGE = 100;
/** Loads more pages automatically until there are enough matching rows: a page may contain few or none. */
const MIN_ROWS = 20;
const MAX_READS = 50;
const LIVE_MS = 2000;

/** Loads the request log with enough rows to fill the window, if there are that many. */
export function useLogPage(query: NonNullable<Arguments<'listRequests'>['query']>, live: boolean) {
  const given = { query: { ...query, limit: PAGE } };
  const log = useLog(given, live ? LIVE_MS : null);
  const { data, hasMore, isFetching, more } = log;
  const reads = useRef({ of: '', count: 0 });
  const of = JSON.stringify(query);
  const count = data?.length ?? MIN_ROWS;
  useEffect(() => {
    if (reads.current.of !== of) reads.current = { of, count: 0 };
    if (!hasMore || isFetching || count >= MIN_ROWS || reads.current.count >= MAX_READS) return;
    reads.current.count++;
    more();
  });
  return log;
}
