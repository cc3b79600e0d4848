import type { ReactNode } from 'react';
import type { QueryState } from '../api/queries.ts';
import { Card } from './card.tsx';
import { ErrorState, SkeletonRows } from './states.tsx';

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

/** Whether this is an empty list, or the response of an endpoint that returns one. */
function isEmpty(data: unknown): boolean {
  const list = typeof data === 'object' && data !== null && 'data' in data ? data.data : data;
  return Array.isArray(list) && list.length === 0;
}
