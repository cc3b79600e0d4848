import type { ReactNode } from 'react';
import type { QueryState } from '../api/queries.ts';
import { Button } from './button.tsx';
import { Card } from './card.tsx';
import { CodeText } from './code-text.tsx';
import { ErrorState, Notice, Skeleton, SkeletonRows } from './states.tsx';

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
