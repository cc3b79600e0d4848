import { localRange } from '../format/time.ts';
import {
  daysOf,
  daysText,
  isDay,
  isNamedRange,
  NAMED_RANGES,
  type Days,
  type NamedRange,
} from './date-range-days.ts';

/** A time range, as in the URL; all null: any time. */
export interface TimeRange {
  range: NamedRange | null;
  /** From `from`, before `to`: UTC days or ISO 8601 times. Null if `range` is set. */
  from: string | null;
  to: string | null;
}

/** Parses the URL query. Ignores invalid values. */
export function timeRangeOf(query: URLSearchParams): TimeRange {
  const range = query.get('range');
  if (range !== null && isNamedRange(range)) return { range, from: null, to: null };
  const [from, to] = [query.get('from'), query.get('to')];
  return { range: null, from: from && momentOf(from), to: to && momentOf(to) };
}

/** Converts to the parameters of the API. */
export function timeRangeQuery({ range, from, to }: TimeRange, today: string): Partial<Days> {
  const days: Partial<Days> = range === null ? {} : daysOf(range, today);
  const [start, end] = [days.from ?? from, days.to ?? to];
  return {
    ...(start !== null && { from: asMoment(start) }),
    ...(end !== null && { to: asMoment(end) }),
  };
}

export const isTimeSet = ({ range, from, to }: TimeRange): boolean =>
  range !== null || from !== null || to !== null;

export function timeRangeText(time: TimeRange): string {
  const { range, from, to } = time;
  if (!isTimeSet(time)) return 'Any time';
  if (range !== null) return NAMED_RANGES[range];
  if (from !== null && to !== null && isDay(from) && isDay(to)) return daysText({ from, to });
  return localRange(from && asMoment(from), to && asMoment(to));
}

const asMoment = (text: string): string => (isDay(text) ? `${text}T00:00:00Z` : text);

/** Returns the text if it is a day or an ISO 8601 time with a time zone that the API accepts, else null. */
export function momentOf(text: string): string | null {
  if (isDay(text)) return text;
  const [, day] = MOMENT.exec(text) ?? [];
  return day !== undefined && isDay(day) ? text : null;
}

/** `Date.parse` also accepts February 30 and 24:00. */
const MOMENT =
  /^(\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/;
