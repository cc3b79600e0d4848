import type { Arguments, ItemOf } from '../api/client.ts';
import { isNamedRange } from '../components/date-range-days.ts';
import { momentOf, timeRangeQuery } from '../components/time-range.ts';
import { exactMoney } from '../format/money.ts';
import { whole } from '../format/number.ts';
import { typedAmount, typedWhole } from '../format/typed-number.ts';

type Query = NonNullable<Arguments<'listRequests'>['query']>;

/** Label and API query of each status. */
export const STATUSES: Readonly<Record<string, { label: string; hint?: string; query: Query }>> = {
  completed: { label: 'Completed', query: { outcome: 'completed' } },
  running: { label: 'Running', query: { state: 'open' } },
  error: { label: 'Failed', hint: 'Any error', query: { outcome: 'error' } },
  refused: { label: 'Refused', hint: 'Before they reached a model', query: {} },
  '4xx': { label: '4xx', hint: 'Client errors', query: { status_class: 4 } },
  '5xx': { label: '5xx', hint: 'Server errors', query: { status_class: 5 } },
  client_disconnected: { label: 'Client disconnected', query: { outcome: 'client_disconnected' } },
  interrupted: {
    label: 'Interrupted',
    hint: 'The service stopped during the request',
    query: { outcome: 'interrupted' },
  },
};

/** A minimum that the user types. */
interface Minimum {
  label: string;
  /** Unit of the field. */
  unit: string;
  /** What can be typed, as an error message. */
  expected: string;
  /** Returns what the URL has for a typed text; null: invalid. */
  parse: (text: string) => string | null;
  /** Describes the filter with this value. */
  describe: (value: string) => string;
  query: (value: string) => Query;
}

/** Minimums of the duration, the time to first token, the tokens and the cost. */
export const MINIMUMS = {
  duration: {
    label: 'Slower than',
    unit: 's',
    expected: 'Enter 0.001 to 86,400 seconds.',
    parse: seconds,
    describe: (value) => `Slower than ${value} s`,
    query: (value) => ({ min_duration_ms: milliseconds(value) }),
  },
  ttft: {
    label: 'First token after',
    unit: 's',
    expected: 'Enter 0.001 to 86,400 seconds.',
    parse: seconds,
    describe: (value) => `First token after ${value} s`,
    query: (value) => ({ min_ttft_ms: milliseconds(value) }),
  },
  tokens: {
    label: 'At least',
    unit: 'tokens',
    expected: 'Enter 1 to 1,000,000,000 tokens.',
    parse: (text) => {
      const count = Number(typedWhole(text));
      return count >= 1 && count <= 1_000_000_000 ? String(count) : null;
    },
    describe: (value) => `At least ${whole(Number(value))} ${value === '1' ? 'token' : 'tokens'}`,
    query: (value) => ({ min_tokens: Number(value) }),
  },
  cost: {
    label: 'Costs at least',
    unit: 'USD',
    expected: 'Enter an amount in USD, such as 0.01.',
    parse: (text) => {
      const usd = typedAmount(text);
      return usd !== null && /^\d{1,6}(\.\d{1,12})?$/.test(usd) && /[1-9]/.test(usd) ? usd : null;
    },
    describe: (value) => `Costs at least ${exactMoney(value)}`,
    query: (value) => ({ min_cost_usd: value }),
  },
} as const satisfies Record<string, Minimum>;

export type MinimumName = keyof typeof MINIMUMS;
// The keys of the object.
export const MINIMUM_NAMES = Object.keys(MINIMUMS) as MinimumName[];

/** The filters in the URL, with the functions that return their values. Null: ignored, because it is invalid. */
const FILTERS = {
  key: (text: string) => text,
  model: (text: string) => text,
  client: (text: string) => text,
  /** One of `STATUSES`, or an error code. */
  status: (text: string) => text,
  range: (text: string) => (isNamedRange(text) ? text : null),
  /** Start times from `from`, before `to`: UTC days or ISO 8601 times. */
  from: momentOf,
  to: momentOf,
  duration: MINIMUMS.duration.parse,
  ttft: MINIMUMS.ttft.parse,
  tokens: MINIMUMS.tokens.parse,
  cost: MINIMUMS.cost.parse,
  note: noteOf,
} as const satisfies Record<string, (text: string) => string | null>;

type FilterName = keyof typeof FILTERS;
// The keys of the object.
const FILTER_NAMES = Object.keys(FILTERS) as FilterName[];

/** Filters of the request log, as set in the URL; null: all. */
export type Filters = { [Name in FilterName]: ReturnType<(typeof FILTERS)[Name]> | null };

/** Removes all filters from the URL. */
// `FILTERS` has exactly these names.
export const NO_FILTERS = Object.fromEntries(FILTER_NAMES.map((name) => [name, null])) as Record<
  FilterName,
  null
>;

/** Parses the URL query. Ignores invalid values. */
export function filtersOf(query: URLSearchParams): Filters {
  const values = FILTER_NAMES.map((name) => {
    const text = query.get(name);
    return [name, text === null || text === '' ? null : FILTERS[name](text)] as const;
  });
  // Each value is that of its function in `FILTERS`.
  const filters = Object.fromEntries(values) as Filters;
  return filters.range === null ? filters : { ...filters, from: null, to: null };
}

/** Returns the path of the request log with these filters. */
export function requestsPath(filters: Partial<Filters>, more: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(more);
  for (const name of FILTER_NAMES) {
    const value = filters[name];
    if (value) query.set(name, value);
  }
  return query.size > 0 ? `/requests?${query}` : '/requests';
}

/** Returns whether any filter is set. */
export const isNarrowed = (filters: Filters): boolean => FILTER_NAMES.some((name) => filters[name] !== null);

/** Whether the filters are among those that the usage reports and the counts of refused requests have. */
export const isCounted = (filters: Filters): boolean =>
  filters.note === null && MINIMUM_NAMES.every((name) => filters[name] === null);

/** Whether refused requests can match: they have only a time, a key and an error code. */
export const canBeRefused = (filters: Filters): boolean =>
  isCounted(filters) &&
  filters.model === null &&
  filters.client === null &&
  (filters.status === null || filters.status === 'refused' || STATUSES[filters.status] === undefined);

/** Converts to the API query. */
export function toQuery(filters: Filters, today: string): Query {
  const { key, model, client, status, note } = filters;
  const asked: Query = {
    ...(key !== null && { key_id: key }),
    ...(model !== null && { model }),
    ...(client !== null && { client }),
    ...(status !== null && (STATUSES[status]?.query ?? { error_code: status })),
    ...timeRangeQuery(filters, today),
    ...(note !== null && { note }),
  };
  for (const name of MINIMUM_NAMES) {
    const value = filters[name];
    if (value !== null) Object.assign(asked, MINIMUMS[name].query(value));
  }
  return asked;
}

/** Returns the seconds of a typed text, at most a day, without superfluous zeros; null: invalid. */
function seconds(text: string): string | null {
  const typed = /^0*(\d{1,5}(?:\.\d{1,3})?)$/.exec(text.trim())?.[1];
  if (typed === undefined) return null;
  const ms = milliseconds(typed);
  return ms >= 1 && ms <= 86_400_000 ? String(ms / 1000) : null;
}

const milliseconds = (inSeconds: string): number => Math.round(Number(inSeconds) * 1000);

type Note = ItemOf<'listRequests'>['notes'][number];

/** Label and explanation of what can be unusual about a request. */
export const NOTES: Readonly<Record<Note, { label: string; hint: string }>> = {
  changed_input: { label: 'Changed input', hint: 'Parts of the request had no effect, or were changed' },
  cache_miss: { label: 'Cache miss', hint: 'A prompt was computed again that an earlier request had sent' },
  retried: { label: 'Retried', hint: 'A replica failed or refused the request first' },
  continued: { label: 'Continued', hint: 'Another replica continued the response' },
  truncated: { label: 'Truncated', hint: 'Reached the maximum number of tokens or the context length' },
  filtered: { label: 'Filtered', hint: 'A content filter withheld or cut off the response' },
  estimated: { label: 'Estimated tokens', hint: 'The replica did not report valid token counts' },
};

/** Returns the note of this name; null: there is none. */
export function noteOf(text: string): Note | null {
  // The key was found.
  return Object.hasOwn(NOTES, text) ? (text as Note) : null;
}
