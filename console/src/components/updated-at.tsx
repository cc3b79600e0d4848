import { RefreshCw } from 'lucide-react';
import { useSyncExternalStore } from 'react';
import type { ApiError, Operation } from '../api/client.ts';
import { useAge } from '../api/queries.ts';
import { clock, secondsAgo } from '../format/time.ts';
import { Status } from './badge.tsx';
import { IconButton } from './button.tsx';
import { CodeText } from './code-text.tsx';
import { useNow } from './now.ts';

interface UpdatedAtProps {
  /** Time of the data, Unix milliseconds; 0: not loaded yet. */
  atMs: number;
  busy: boolean;
  /** Why it could not be loaded again; null: it was. */
  error: Error | null;
  /** Undefined: the data is refetched automatically. */
  onRefresh?: (() => void) | undefined;
}

export function UpdatedAt({ atMs, busy, error, onRefresh }: UpdatedAtProps) {
  const nowMs = useNow(1000);
  if (atMs === 0) return null;
  return (
    <p className="flex min-h-9 items-center justify-end gap-1 text-xs text-ink-3 tabular-nums">
      {error !== null && (
        <span role="alert" className="mr-2 min-w-0 text-bad">
          Could not refresh: <CodeText text={error.message} />
        </span>
      )}
      <time className="shrink-0" dateTime={new Date(atMs).toISOString()} title={`Updated at ${clock(atMs)}`}>
        Updated {secondsAgo(atMs, nowMs)}
      </time>
      {onRefresh !== undefined && (
        // Not `disabled`, because each refetch would then take the focus away.
        <IconButton
          label="Refresh"
          aria-disabled={busy}
          onClick={() => {
            if (!busy) onRefresh();
          }}
        >
          <RefreshCw />
        </IconButton>
      )}
    </p>
  );
}

/** Shows how old the data of these operations on a page is, with a button that loads it again. */
export function DataAge({ operations }: { operations: readonly Operation[] }) {
  const { atMs, busy, error, refresh } = useAge(operations);
  return <UpdatedAt atMs={atMs} busy={busy} error={error} onRefresh={refresh} />;
}

interface LiveProps {
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
