import {
  keepPreviousData,
  QueryClient,
  useInfiniteQuery,
  useMutation,
  useQueries,
  useQuery,
  useQueryClient,
  type QueryKey,
} from '@tanstack/react-query';
import { say } from '../components/toast.tsx';
import { ApiError, call, type Answer, type Arguments, type Operation } from './client.ts';

/** One for the whole page: what was read, and for how long it is taken as it is. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (failures, error) =>
        failures < 2 && error instanceof ApiError && (error.status === 0 || error.status === 503),
      refetchOnWindowFocus: true,
    },
    mutations: { retry: false },
  },
});

const keyOf = (operation: Operation, given: unknown): QueryKey => [operation, given ?? null];

/** Of what is read in pages: it has another form than one answer of the same operation. */
export const pagesKey = (operation: Operation, given: unknown): QueryKey => [
  ...keyOf(operation, given),
  'pages',
];

interface ReadOptions<Data = unknown> {
  /** Asked anew after so many milliseconds, for as long as the page is seen; it may depend on what was answered. */
  everyMs?: number | ((answer: Data | undefined) => number | false);
  enabled?: boolean;
  /** Shows what was read with other arguments until this is there: for filters and ranges. */
  keep?: boolean;
  /** Stays as it was read for as long as it is seen, unless it is asked for anew. */
  still?: boolean;
}

/** The same for the library. */
function optionsOf<Data>({ enabled = true, everyMs, keep, still }: ReadOptions<Data>) {
  return {
    enabled,
    ...(everyMs !== undefined && {
      refetchInterval:
        typeof everyMs === 'number'
          ? everyMs
          : ({ state }: { state: { data: Data | undefined } }) => everyMs(state.data),
    }),
    ...(keep && { placeholderData: keepPreviousData }),
    ...(still && { staleTime: Infinity, gcTime: 0, refetchOnWindowFocus: false }),
  };
}

/** Reads from the service: what was read before is shown at once, and asked for anew. */
export function useRead<Op extends Operation>(
  operation: Op,
  given: Arguments<Op> | undefined,
  options: ReadOptions<Answer<Op>> = {},
) {
  return useQuery<Answer<Op>, ApiError>({
    queryKey: keyOf(operation, given),
    queryFn: ({ signal }) => call(operation, given, signal),
    ...optionsOf(options),
  });
}

/** Reads several of a kind; each is undefined until it is there, or where it cannot be read. */
export function useReads<Op extends Operation>(
  operation: Op,
  all: readonly Arguments<Op>[],
): (Answer<Op> | undefined)[] {
  return useQueries({
    queries: all.map((given) => ({
      queryKey: keyOf(operation, given),
      queryFn: ({ signal }: { signal: AbortSignal }) => call(operation, given, signal),
    })),
    combine: (reads) => reads.map(({ data }) => data),
  });
}

interface PageOf<T> {
  data: T[];
  next_cursor: string | null;
}

/** The endpoints that answer a list in pages. */
type Paged = { [Op in Operation]: Answer<Op> extends PageOf<unknown> ? Op : never }[Operation];

/** Reads a list page after page; `items` are those read so far, `more()` reads the next page. */
export function useList<Op extends Paged>(
  operation: Op,
  given: Arguments<Op> | undefined,
  options: Omit<ReadOptions, 'everyMs'> & { everyMs?: number } = {},
) {
  type Item = Answer<Op> extends PageOf<infer One> ? One : never;
  const list = useInfiniteQuery<PageOf<Item>, ApiError, Item[], QueryKey, string | null>({
    queryKey: pagesKey(operation, given),
    queryFn: async ({ pageParam, signal }) => {
      const { query, ...rest } = (given ?? {}) as { query?: object };
      const page = { ...rest, query: { ...query, ...(pageParam === null ? {} : { cursor: pageParam }) } };
      return (await call(operation, page as unknown as Arguments<Op>, signal)) as PageOf<Item>; // `Paged` says so.
    },
    initialPageParam: null,
    getNextPageParam: (last) => last.next_cursor,
    select: ({ pages }) => pages.flatMap(({ data }) => data),
    ...optionsOf(options),
  });
  return {
    items: list.data,
    error: list.error,
    isPending: list.isPending,
    isFetching: list.isFetching,
    hasMore: list.hasNextPage,
    isReadingMore: list.isFetchingNextPage,
    more: () => void list.fetchNextPage(),
    refetch: () => void list.refetch(),
  };
}

interface ActionOptions<Op extends Operation> {
  /** What is read anew once this has been done. */
  changes?: readonly Operation[];
  /** Said when it has been done. */
  done?: string | ((answer: Answer<Op>) => string);
  /** The fault is shown by the caller, such as beside its field, and not said as well. */
  quiet?: boolean;
}

/** Changes something: says what happened, and reads anew what it changed. */
export function useAction<Op extends Operation>(operation: Op, options: ActionOptions<Op> = {}) {
  const client = useQueryClient();
  return useMutation<Answer<Op>, ApiError, Arguments<Op> | undefined>({
    mutationFn: (given) => call(operation, given),
    onSuccess: async (answer) => {
      if (options.done !== undefined)
        say.good(typeof options.done === 'string' ? options.done : options.done(answer));
      await Promise.all(
        (options.changes ?? []).map((changed) => client.invalidateQueries({ queryKey: [changed] })),
      );
    },
    onError: (error) => {
      if (!options.quiet) say.bad(error.message);
    },
  });
}
