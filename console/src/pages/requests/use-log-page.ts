import { useEffect, useRef } from 'react';
import type { Arguments } from '../../api/client.ts';
import { useLog } from '../../api/log.ts';

/** Rows that one reading asks for. */
const PAGE = 100;
/** Rows that a search goes on for by itself, and how often: a page may hold few that pass the filters, or none. */
const ENOUGH = 20;
const MOST_READS = 50;
const LIVE_MS = 2000;

/** The log, with as many rows as fill a window, if there are so many. */
export function useLogPage(query: NonNullable<Arguments<'listRequests'>['query']>, live: boolean) {
  const asked = { query: { ...query, limit: PAGE } };
  const log = useLog(asked, live ? LIVE_MS : null);
  const { items, hasMore, isFetching, more } = log;
  const reads = useRef({ of: '', count: 0 });
  const of = JSON.stringify(query);
  const count = items?.length ?? ENOUGH;
  useEffect(() => {
    if (reads.current.of !== of) reads.current = { of, count: 0 };
    if (!hasMore || isFetching || count >= ENOUGH || reads.current.count >= MOST_READS) return;
    reads.current.count++;
    more();
  });
  return log;
}
