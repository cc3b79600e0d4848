import {
  keepPreviousData,
  notifyManager,
  QueryCache,
  QueryClient,
  useInfiniteQuery,
  useIsFetching,
  useQueries,
  useQuery,
  useQueryClient,
  type Query,
  type QueryKey,
  type UseQueryOptions,
} from '@tanstack/react-query';
import { useEffect, useSyncExternalStore } from 'react';
import {
  ApiError,
  call,
  callAll,
  callPage,
  isSessionEnd,
  type Arguments,
  type ItemOf,
  type Operation,
  type Paged,
  type PageOf,
  type ResponseOf,
} from './client.ts';
import { noteSession } from './session.ts';

// Not in a timer, which the second click of a double click can precede: a button must be disabled by then.
notifyManager.setScheduler(queueMicrotask);

/** Checks the session after an error that it may explain. */
export function checkSession(error: Error): void {
  if (error instanceof ApiError && (error.status === 0 || isSessionEnd(error)))
    void queryClient.invalidateQueries({ queryKey: SESSION });
}

export const queryClient = new QueryClient({
  queryCache: new QueryCache({
    onSuccess: (data, { queryKey }) => {
      // The data of this key.
      if (queryKey[0] === SESSION[0]) noteSession((data as ResponseOf<'getSession'>).user?.id ?? null);
    },
    onError: (error, { queryKey }) => queryKey[0] !== SESSION[0] && checkSession(error),
  }),
  defaultOptions: {
    queries: {
      // Requests of an offline browser fail instead of waiting, because the service may be on the same machine.
      networkMode: 'always',
      staleTime: 5_000,
      // Not after a timeout: the user has waited long enough.
      retry: (failures, error) =>
        failures < 2 && error instanceof ApiError && (error.code === 'unreachable' || error.status === 503),
      refetchOnWindowFocus: true,
    },
  },
});

const keyOf = (operation: Operation, given: unknown): QueryKey => [operation, given ?? null];

const SESSION = keyOf('getSession', undefined);

/** The user of the last response for the session; null: it has ended; undefined: no response yet. */
const sessionUser = () => queryClient.getQueryData<ResponseOf<'getSession'>>(SESSION)?.user;

/** While a user is signed in, the session is also read to find out whether the service responds. */
const SESSION_TIMEOUT_MS = 5000;

/** Key of a list that is read in pages; its data differs from a single response of the same operation. */
export const pagesKey = (operation: Operation, given: unknown): QueryKey => [
  ...keyOf(operation, given),
  'pages',
];

interface ReadOptions<Data = unknown> {
  /** Refetch interval in milliseconds while the page is visible; may depend on the last response. */
  everyMs?: number | ((answer: Data | undefined) => number | false);
  enabled?: boolean;
  /** Keeps showing the previous data while data for new arguments (filters, ranges) loads. */
  keep?: boolean;
  /** Never refetches automatically. */
  still?: boolean;
}

function optionsOf<Data>({ enabled = true, everyMs, keep, still }: ReadOptions<Data>) {
  return {
    enabled,
    ...(everyMs !== undefined && {
      refetchInterval: ({ state, queryKey }: { state: { data: Data | undefined }; queryKey: QueryKey }) => {
        // Without a session, everything but the session itself would be refused.
        if (sessionUser() === null && queryKey[0] !== SESSION[0]) return false;
        return typeof everyMs === 'number' ? everyMs : everyMs(state.data);
      },
    }),
    ...(keep && { placeholderData: keepPreviousData }),
    ...(still && { staleTime: Infinity, gcTime: 0, refetchOnWindowFocus: false }),
  };
}

/** The state of one or several queries; see `Loaded`. */
export interface QueryState<Data> {
  /** Undefined: not loaded yet. */
  data: Data | undefined;
  /** Null: none, or the last request succeeded. */
  error: ApiError | null;
  refetch: () => unknown;
}

/** Returns the first error of several queries, and a function that loads them all again. */
export function together(
  queries: readonly QueryState<unknown>[],
): Pick<QueryState<unknown>, 'error' | 'refetch'> {
  return {
    error: queries.find(({ error }) => error !== null)?.error ?? null,
    refetch: () => queries.forEach((query) => void query.refetch()),
  };
}

/** Combines two queries into one that has data when both have. */
export function both<A, B>(a: QueryState<A>, b: QueryState<B>): QueryState<readonly [A, B]> {
  return {
    data: a.data === undefined || b.data === undefined ? undefined : [a.data, b.data],
    ...together([a, b]),
  };
}

/** Loads data from the service. Shows cached data immediately and refetches it. */
export function useRead<Op extends Operation>(
  operation: Op,
  given: Arguments<Op> | undefined,
  options: ReadOptions<ResponseOf<Op>> = {},
) {
  return useQuery<ResponseOf<Op>, ApiError>({ ...queryOf(operation, given), ...optionsOf(options) });
}

function queryOf<Op extends Operation>(
  operation: Op,
  given: Arguments<Op> | undefined,
): UseQueryOptions<ResponseOf<Op>, ApiError> {
  return {
    queryKey: keyOf(operation, given),
    queryFn: ({ signal }) =>
      call(
        operation,
        given,
        signal,
        operation === 'getSession' && sessionUser() ? SESSION_TIMEOUT_MS : undefined,
      ),
  };
}

/** Reads the session again, and resolves when the pages have it. Rejects with an `ApiError`. */
export const readSession = () =>
  queryClient.fetchQuery({ ...queryOf('getSession', undefined), staleTime: 0 });

export function useReads<Op extends Operation>(
  operation: Op,
  all: readonly Arguments<Op>[],
  options: ReadOptions<ResponseOf<Op>> = {},
): readonly QueryState<ResponseOf<Op>>[] {
  return useQueries({
    queries: all.map((given) => ({ ...queryOf(operation, given), ...optionsOf(options) })),
    combine: (reads) => reads.map(({ data, error, refetch }) => ({ data, error, refetch })),
  });
}

export function useAll<Op extends Paged>(
  operation: Op,
  given: Arguments<Op> | undefined,
  options: ReadOptions<ItemOf<Op>[]> = {},
) {
  return useQuery<ItemOf<Op>[], ApiError>({
    queryKey: [...keyOf(operation, given), 'all'],
    queryFn: ({ signal }) => callAll(operation, given, signal),
    ...optionsOf(options),
  });
}

/** Loads a list page by page; `data` are the elements loaded so far, `more()` loads the next page. */
export function useList<Op extends Paged>(
  operation: Op,
  given: Arguments<Op> | undefined,
  options: Omit<ReadOptions, 'everyMs'> & { everyMs?: number } = {},
) {
  type Item = ItemOf<Op>;
  const list = useInfiniteQuery<PageOf<Item>, ApiError, Item[], QueryKey, string | null>({
    queryKey: pagesKey(operation, given),
    queryFn: ({ pageParam, signal }) => callPage(operation, given, pageParam, signal),
    initialPageParam: null,
    getNextPageParam: (last) => last.next_cursor,
    select: ({ pages }) => pages.flatMap(({ data }) => data),
    ...optionsOf(options),
    // A refetch would load all of the pages again.
    refetchOnWindowFocus: ({ state }) => !options.still && (state.data?.pages.length ?? 0) <= 1,
  });
  return {
    data: list.data,
    error: list.error,
    isPending: list.isPending,
    isFetching: list.isFetching,
    /** The data is of the arguments before, see `keep`. */
    isStale: list.isPlaceholderData,
    /** Unix milliseconds; 0: not loaded yet. */
    updatedAt: list.dataUpdatedAt,
    hasMore: list.hasNextPage,
    isReadingMore: list.isFetchingNextPage,
    /** Why the last page that was requested could not be loaded; null: it was loaded. */
    moreError: list.isFetchNextPageError ? list.error : null,
    more: () => void list.fetchNextPage(),
    /**
     * Loads pages until there are `count` elements or no more. Resolves to all that are loaded. Rejects with an `ApiError`,
     * or the reason of the signal.
     */
    async loadUpTo(count: number, signal: AbortSignal): Promise<readonly Item[]> {
      let { data = [], hasNextPage } = list;
      while (hasNextPage && data.length < count) {
        const read = await list.fetchNextPage();
        signal.throwIfAborted();
        if (read.error) throw read.error;
        ({ data = [], hasNextPage } = read);
      }
      return data;
    },
    refetch: () => void list.refetch(),
  };
}

/**
 * Returns the age of what is shown of these operations: the time of the oldest response, in Unix milliseconds (0: not
 * loaded yet), whether they are being loaded, why one of them could not be loaded again (null: all were), and a function
 * that loads them again.
 */
export function useAge(operations: readonly Operation[]): {
  atMs: number;
  busy: boolean;
  error: Error | null;
  refresh: () => void;
} {
  const client = useQueryClient();
  const cache = client.getQueryCache();
  const shown = {
    type: 'active',
    predicate: ({ queryKey: [operation] }: Query) => operations.some((one) => one === operation),
  } as const;
  // Not while a component renders, which can begin a query.
  const subscribe = (changed: () => void) => cache.subscribe(notifyManager.batchCalls(changed));
  const atMs = useSyncExternalStore(subscribe, () => {
    const times = cache.findAll(shown).flatMap(({ state }) => state.dataUpdatedAt || []);
    return times.length === 0 ? 0 : Math.min(...times);
  });
  const error = useSyncExternalStore(
    subscribe,
    () =>
      cache.findAll(shown).find(({ state }) => state.data !== undefined && state.error)?.state.error ?? null,
  );
  return { atMs, busy: useIsFetching(shown) > 0, error, refresh: () => void client.refetchQueries(shown) };
}

/** The state of a list whose pages are loaded one after another. */
export interface ListRest {
  hasMore: boolean;
  isReadingMore: boolean;
  moreError: ApiError | null;
  more: () => void;
}

/** Loads the next pages while `wanted`, until one of them fails. */
export function useMore(wanted: boolean, rest: ListRest | undefined): void {
  useEffect(() => {
    if (wanted && rest?.hasMore === true && !rest.isReadingMore && rest.moreError === null) rest.more();
  });
}

const MAX_KEYS = 1000;

/** Loads the keys of an account, or of all accounts if the query is empty. Playground keys are not included. */
export function useKeys(query: { account_id?: string }, options: { enabled?: boolean } = {}) {
  return useRead('listKeys', { query: { ...query, limit: MAX_KEYS } }, options);
}
