import { useSyncExternalStore } from 'react';
import type { ApiError } from '../../api/client.ts';
import { Status } from '../../components/badge.tsx';
import { clock } from './words.ts';

interface LiveProps {
  /** What is read again and again. */
  query: { dataUpdatedAt: number; error: ApiError | null; failureReason: ApiError | null };
}

/** Whether the numbers of a page are those of now, and since when they are not. */
export function Live({ query: { dataUpdatedAt, error, failureReason } }: LiveProps) {
  const seen = useSyncExternalStore(listen, isSeen);
  const since = dataUpdatedAt > 0 ? ` since ${clock(dataUpdatedAt)}` : '';
  return (
    <span role="status" className="text-xs">
      {error !== null || failureReason !== null ? (
        <Status tone="bad">Paused: no answer{since}</Status>
      ) : seen ? (
        <Status tone="good" live>
          Live
        </Status>
      ) : (
        <Status tone="neutral">Paused{since}</Status>
      )}
    </span>
  );
}

const isSeen = (): boolean => document.visibilityState === 'visible';

function listen(changed: () => void): () => void {
  document.addEventListener('visibilitychange', changed);
  return () => document.removeEventListener('visibilitychange', changed);
}
