import { lazy, Suspense, useDeferredValue, useMemo, type ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { Segmented } from '../../components/choices.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { useQueryState } from '../../state/url-query.ts';

const TagFilter = lazy(() => import('./tag-filter.tsx'));

type Key = ItemOf<'listKeys'>;

const STATES = [
  { value: 'live', label: 'Active' },
  { value: 'ended', label: 'Revoked and expired' },
] as const;

/** The search field is shown for more keys than this. */
const MANY = 8;

/** The filters in the URL. */
function useFilters() {
  const [query, change] = useQueryState();
  return {
    state: query.get('state') === 'ended' ? ('ended' as const) : ('live' as const),
    search: query.get('q') ?? '',
    tag: query.get('tag'),
    change,
  };
}

/** Returns the keys that match the filters in the URL, and the filters. */
export function useMatching(keys: readonly Key[]) {
  const filters = useFilters();
  const { state, search, tag } = filters;
  const wanted = useDeferredValue(search).trim().toLowerCase();
  const matching = useMemo(
    () =>
      keys.filter(
        (key) =>
          (key.status === 'live') === (state === 'live') &&
          (tag === null || key.tags.includes(tag)) &&
          (wanted === '' ||
            key.name.toLowerCase().includes(wanted) ||
            key.tags.some((one) => one.toLowerCase().includes(wanted)) ||
            key.last_four.toLowerCase() === wanted ||
            key.id === wanted),
      ),
    [keys, state, tag, wanted],
  );
  return { matching, ...filters };
}

interface KeyFiltersProps {
  /** All keys of the account. */
  keys: readonly Key[];
  /** Buttons at the end. */
  children: ReactNode;
}

/** The filters of the keys. */
export function KeyFilters({ keys, children }: KeyFiltersProps) {
  const { state, search, tag, change } = useFilters();
  const tags = useMemo(
    () => [...new Set([...keys.flatMap((key) => key.tags), ...(tag === null ? [] : [tag])])].toSorted(),
    [keys, tag],
  );
  return (
    <div className="flex flex-wrap items-center justify-between gap-3 border-b border-line px-4 py-3 sm:px-5">
      <Segmented
        label="Status"
        value={state}
        choices={STATES}
        onChange={(chosen) => change({ state: chosen === 'live' ? null : chosen })}
      />
      <div className="flex flex-wrap items-center gap-2 max-sm:w-full">
        {(keys.length > MANY || search !== '') && (
          <SearchField
            label="Search by name or tag"
            className="w-full sm:w-64"
            value={search}
            onChange={(q) => change({ q }, { replace: true })}
          />
        )}
        {tags.length > 0 && (
          <Suspense>
            <TagFilter tags={tags} value={tag} onChange={(chosen) => change({ tag: chosen })} />
          </Suspense>
        )}
        {children}
      </div>
    </div>
  );
}
