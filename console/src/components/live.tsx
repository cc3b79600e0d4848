import { useSyncExternalStore } from 'react';
import type { ApiError } from '../api/client.ts';
import { Status } from './badge.tsx';
import { clock } from '../format/time.ts';

interface LiveProps {
  /** The query that refetches. */
  query: { dataUpdatedAt: number; error: ApiError | null; failureReason: ApiError | null };
}

/** Shows whether a page is live, paused or disconnected, and since when. Live begins with the first data. */
export function Live({ query: { dataUpdatedAt, error, failureReason } }: LiveProps) {
  const isVisible = useSyncExternalStore(listen, readVisibility);
  const since = dataUpdatedAt > 0 ? ` since ${clock(dataUpdatedAt)}` : '';
  return (
    <span role="status" className="text-xs">
      {error !== null || failureReason !== null ? (
        <Status tone="bad">No response{since}</Status>
      ) : dataUpdatedAt === 0 ? (
        <Status tone="neutral">Connecting</Status>
      ) : isVisible ? (
        <Status tone="good" live>
          Live
        </Status>
      ) : (
        <Status tone="neutral">Paused{since}</Status>
      )}
    </span>
  );
}

const readVisibility = (): boolean => document.visibilityState === 'visible';

function listen(changed: () => void): () => void {
  document.addEventListener('visibilitychange', changed);
  return () => document.removeEventListener('visibilitychange', changed);
}
