import {
  addDays,
  countDays,
  daysBefore,
  daysOf,
  daysText,
  isDay,
  isNamedRange,
  NAMED_RANGES,
  type Days,
  type NamedRange,
} from '../../components/date-range-days.ts';
import { GROUPS } from '../../format/usage-groups.ts';

/** Groupings of the charts. */
const SPLITS = ['none', 'model', 'key', 'client', 'account'] as const;
type Split = (typeof SPLITS)[number];

/** Returns the label of a grouping. */
export const splitLabel = (split: Split): string => (split === 'none' ? 'None' : GROUPS[split].label);

/** Returns the choices; a single account cannot be grouped by account. */
export const splitsOf = (all: boolean): Split[] => SPLITS.filter((split) => split !== 'account' || all);

/** The selection of the page, stored in the URL. */
export interface Selection {
  range: NamedRange | null;
  days: Days;
  /** The previous period. */
  before: Days;
  /** Length of one bar. */
  unit: 'hour' | 'day';
  /** Grouping of the charts. */
  split: Split;
  /** Draws the previous period in the charts. */
  compare: boolean;
  model: string | null;
  key: string | null;
}

const DEFAULT_RANGE: NamedRange = '30d';
/** Ranges up to this many days are shown by hour. */
const MAX_DAYS_BY_HOUR = 2;
/** Maximum length of a custom range, in days. */
const MAX_DAYS = 366;

/** Parses the URL query. Ignores invalid values. */
export function selectionOf(query: URLSearchParams, today: string, all: boolean): Selection {
  const custom = daysIn(query, today);
  const named = query.get('range') ?? DEFAULT_RANGE;
  const range = custom !== null ? null : isNamedRange(named) ? named : DEFAULT_RANGE;
  const days = range === null ? (custom ?? daysOf(DEFAULT_RANGE, today)) : daysOf(range, today);
  return {
    range,
    days,
    before: daysBefore(days, range),
    unit: countDays(days) <= MAX_DAYS_BY_HOUR ? 'hour' : 'day',
    split: splitsOf(all).find((split) => split === query.get('split')) ?? 'none',
    compare: query.get('compare') === '1',
    model: query.get('model') || null,
    key: query.get('key') || null,
  };
}

/** Formats the range, such as "Last 7 days". */
export const rangeLabel = ({ range, days }: Selection): string =>
  range === null ? daysText(days) : NAMED_RANGES[range];

function daysIn(query: URLSearchParams, today: string): Days | null {
  const from = query.get('from') ?? '';
  const to = query.get('to') ?? '';
  if (!isDay(from) || !isDay(to) || to <= from || from > today) return null;
  const latest = addDays(from, MAX_DAYS);
  return { from, to: to < latest ? to : latest };
}
