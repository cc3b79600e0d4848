import type { Arguments } from '../api/client.ts';
import {
  daysOf,
  daysText,
  isDay,
  isNamedRange,
  NAMED_RANGES,
  type Days,
  type NamedRange,
} from '../components/date-range-days.ts';
import { localRange } from '../format/time.ts';

/** Filters of the request log, as set in the URL; null: all. */
export interface Filters {
  key: string | null;
  model: string | null;
  /** One of `STATUSES`, or an error code. */
  status: string | null;
  range: NamedRange | null;
  /** Start times from `from`, before `to`: UTC days or ISO 8601 times. */
  from: string | null;
  to: string | null;
}

type Query = NonNullable<Arguments<'listRequests'>['query']>;

/** Label and API query of each status. */
export const STATUSES: Readonly<Record<string, { label: string; hint?: string; query: Query }>> = {
  completed: { label: 'Completed', query: { outcome: 'completed' } },
  running: { label: 'Running', query: { state: 'open' } },
  error: { label: 'Any error', query: { outcome: 'error' } },
  '4xx': { label: '4xx', hint: 'Client errors', query: { status_class: 4 } },
  '5xx': { label: '5xx', hint: 'Server errors', query: { status_class: 5 } },
  client_disconnected: { label: 'Client disconnected', query: { outcome: 'client_disconnected' } },
  interrupted: {
    label: 'Interrupted',
    hint: 'The service stopped during the request',
    query: { outcome: 'interrupted' },
  },
};

const NAMES = ['key', 'model', 'status', 'range', 'from', 'to'] as const;

/** Parses the URL query. Ignores invalid values. */
export function filtersOf(query: URLSearchParams): Filters {
  const of = (name: string) => query.get(name) || null;
  const range = of('range');
  const named = range !== null && isNamedRange(range) ? range : null;
  return {
    key: of('key'),
    model: of('model'),
    status: of('status'),
    range: named,
    from: named === null ? momentOf(of('from')) : null,
    to: named === null ? momentOf(of('to')) : null,
  };
}

/** Returns the path of the request log with these filters. */
export function requestsPath(filters: Partial<Filters>, more: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(more);
  for (const name of NAMES) {
    const value = filters[name];
    if (value) query.set(name, value);
  }
  return query.size > 0 ? `/requests?${query}` : '/requests';
}

/** Returns whether any filter is set. */
export const isNarrowed = (filters: Filters): boolean => NAMES.some((name) => filters[name] !== null);

/** Converts to the API query. */
export function toQuery(filters: Filters, today: string): Query {
  const { key, model, status, range } = filters;
  const days: Partial<Days> = range === null ? {} : daysOf(range, today);
  const from = days.from ?? filters.from;
  const to = days.to ?? filters.to;
  return {
    ...(key !== null && { key_id: key }),
    ...(model !== null && { model }),
    ...(status !== null && (STATUSES[status]?.query ?? { error_code: status })),
    ...(from !== null && { from: asMoment(from) }),
    ...(to !== null && { to: asMoment(to) }),
  };
}

/** Formats the time range. */
export function rangeText({ range, from, to }: Filters): string {
  if (range !== null) return NAMED_RANGES[range];
  if (from !== null && to !== null && isDay(from) && isDay(to)) return daysText({ from, to });
  return localRange(from && asMoment(from), to && asMoment(to));
}

const asMoment = (text: string): string => (isDay(text) ? `${text}T00:00:00Z` : text);

/** Returns the text if it is a day or an ISO 8601 time with a time zone, else null. */
function momentOf(text: string | null): string | null {
  if (text === null || isDay(text)) return text;
  const isMoment = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)$/.test(text);
  return isMoment && !Number.isNaN(Date.parse(text)) ? text : null;
}
