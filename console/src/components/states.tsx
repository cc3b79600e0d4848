import { CircleAlert, type LucideIcon } from 'lucide-react';
import type { ReactNode } from 'react';
import type { ApiError } from '../api/client.ts';
import type { QueryState } from '../api/queries.ts';
import { Button } from './button.tsx';
import { Card } from './card.tsx';
import { CodeText } from './code-text.tsx';

/** A placeholder with the size of the content, so that the layout does not shift. */
export function Skeleton({ className = 'h-4 w-24' }: { className?: string }) {
  return (
    <span
      data-skeleton=""
      className={`block animate-pulse-soft rounded-md bg-sunken ${className}`}
      aria-hidden="true"
    />
  );
}

export function SkeletonRows({ rows = 6 }: { rows?: number }) {
  return (
    <div role="status" className="divide-y divide-line">
      <span className="sr-only">Loading</span>
      {Array.from({ length: rows }, (_, index) => (
        <div key={index} className="flex h-13 items-center gap-6 px-4 sm:px-5">
          <Skeleton className="h-4 w-1/4" />
          <Skeleton className="h-4 w-1/6" />
          <Skeleton className="ml-auto h-4 w-20" />
        </div>
      ))}
    </div>
  );
}

/** Placeholders, one below the other. `heights`: their classes. */
export function Skeletons({ heights }: { heights: readonly string[] }) {
  return (
    <div role="status" className="space-y-5">
      <span className="sr-only">Loading</span>
      {heights.map((height, index) => (
        <Skeleton key={index} className={`w-full ${height}`} />
      ))}
    </div>
  );
}

export function EmptyState({
  icon: Icon,
  title,
  children,
  action,
}: {
  icon: LucideIcon;
  title: string;
  children?: ReactNode;
  action?: ReactNode;
}) {
  return (
    <div className="flex flex-col items-center px-6 py-14 text-center">
      <span className="mb-4 flex size-11 items-center justify-center rounded-full bg-accent-soft text-accent">
        <Icon className="size-5" />
      </span>
      <p className="text-sm font-semibold">{title}</p>
      {children !== undefined && <div className="mt-1 max-w-md text-sm text-ink-3">{children}</div>}
      {action !== undefined && <div className="mt-5">{action}</div>}
    </div>
  );
}

export function ErrorState({ error, retry }: { error: ApiError; retry?: () => void }) {
  return (
    <div role="alert" className="flex flex-col items-center px-6 py-12 text-center">
      <span className="mb-4 flex size-11 items-center justify-center rounded-full bg-bad-soft text-bad">
        <CircleAlert className="size-5" />
      </span>
      <p className="text-sm font-semibold">Could not load this data</p>
      <p className="mt-1 max-w-md text-sm text-ink-3">
        <CodeText text={error.message} />
      </p>
      {error.requestId !== null && (
        <p className="mt-1 text-2xs text-ink-3">
          Request ID: <span className="font-mono">{error.requestId}</span>
        </p>
      )}
      {retry !== undefined && (
        <Button className="mt-5" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

export function Notice({
  tone = 'accent',
  title,
  children,
  action,
}: {
  tone?: 'accent' | 'warn' | 'bad' | 'good';
  title?: string;
  children: ReactNode;
  action?: ReactNode;
}) {
  const tones = {
    accent: 'bg-accent-soft text-ink',
    good: 'bg-good-soft text-ink',
    warn: 'bg-warn-soft text-ink',
    bad: 'bg-bad-soft text-ink',
  };
  return (
    <div
      role={tone === 'bad' ? 'alert' : 'note'}
      className={`flex flex-wrap items-center justify-between gap-3 rounded-lg px-4 py-3 text-sm ${tones[tone]}`}
    >
      <div className="min-w-0">
        {title !== undefined && <p className="font-semibold">{title}</p>}
        <div className="text-ink-2">{children}</div>
      </div>
      {action}
    </div>
  );
}

interface LoadedProps<Data> {
  query: QueryState<Data>;
  /** Shown while the data loads for the first time. Default: placeholder rows. */
  loading?: ReactNode;
  /** Shown for a list without elements. */
  empty?: ReactNode;
  /** Puts the error and the placeholder rows in a card, for content that has its own cards. */
  card?: boolean;
  children: (data: Data) => ReactNode;
}

/** Shows the data of a query, or that it loads, failed or is empty. Data stays visible when a later refetch fails. */
export function Loaded<Data>({ query, loading, empty, card = false, children }: LoadedProps<Data>) {
  const { data, error, refetch } = query;
  if (data !== undefined) return empty !== undefined && isEmpty(data) ? empty : children(data);
  if (error === null && loading !== undefined) return loading;
  const state = error === null ? <SkeletonRows /> : <ErrorState error={error} retry={() => void refetch()} />;
  return card ? <Card flush>{state}</Card> : state;
}

/** A value in a table that loads apart from its rows: a placeholder, or "—" if it could not be loaded. */
export function Unloaded({ query: { error }, className }: { query: QueryState<unknown>; className: string }) {
  return error === null ? <Skeleton className={className} /> : '—';
}

/** Says that such values could not be loaded; nothing otherwise. `what`: such as "the usage". */
export function LoadFailure({
  query: { data, error, refetch },
  what,
}: {
  query: QueryState<unknown>;
  what: string;
}) {
  if (data !== undefined || error === null) return null;
  return (
    <Notice tone="bad" action={<Button onClick={() => void refetch()}>Try again</Button>}>
      Could not load {what}: <CodeText text={error.message} />
    </Notice>
  );
}

/** Whether this is an empty list, or the response of an endpoint that returns one. */
function isEmpty(data: unknown): boolean {
  const list = typeof data === 'object' && data !== null && 'data' in data ? data.data : data;
  return Array.isArray(list) && list.length === 0;
}
