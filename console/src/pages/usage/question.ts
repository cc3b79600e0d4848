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

/** By what usage is taken apart: how requests ended, or what they were made with. */
export const SPLITS = { status: 'Status', model: 'Model', key: 'Key', account: 'Account' } as const;
export type Split = keyof typeof SPLITS;

/** What the page shows, as its address has it. */
export interface Question {
  range: NamedRange | null;
  days: Days;
  /** The days to compare with. */
  before: Days;
  /** What one bar is. */
  unit: 'hour' | 'day';
  /** By what the charts are stacked. */
  split: Split;
  /** By what the table below them is taken apart. */
  breakdown: Split;
  /** Whether the days before are drawn as well. */
  compare: boolean;
  model: string | null;
  key: string | null;
}

const DEFAULT_RANGE: NamedRange = '30d';
/** Of days so few, hours are shown. */
const MOST_DAYS_IN_HOURS = 2;
/** What a custom range is cut to, in days. */
const MOST_DAYS = 366;

/** Reads it from the query of an address; what makes no sense there is as if it were not there. */
export function questionOf(query: URLSearchParams, today: string, all: boolean): Question {
  const custom = daysIn(query, today);
  const named = query.get('range') ?? DEFAULT_RANGE;
  const range = custom !== null ? null : isNamedRange(named) ? named : DEFAULT_RANGE;
  const days = range === null ? (custom ?? daysOf(DEFAULT_RANGE, today)) : daysOf(range, today);
  return {
    range,
    days,
    before: daysBefore(days, range),
    unit: countDays(days) <= MOST_DAYS_IN_HOURS ? 'hour' : 'day',
    split: splitOf(query.get('split'), all) ?? 'status',
    breakdown: splitOf(query.get('breakdown'), all) ?? 'model',
    compare: query.get('compare') === '1',
    model: query.get('model') || null,
    key: query.get('key') || null,
  };
}

/** The days in words. */
export const daysWords = ({ range, days }: Question): string =>
  range === null ? daysText(days) : NAMED_RANGES[range];

function daysIn(query: URLSearchParams, today: string): Days | null {
  const from = query.get('from') ?? '';
  const to = query.get('to') ?? '';
  if (!isDay(from) || !isDay(to) || to <= from || from > today) return null;
  const latest = addDays(from, MOST_DAYS);
  return { from, to: to < latest ? to : latest };
}

function splitOf(text: string | null, all: boolean): Split | null {
  if (text === null || !Object.hasOwn(SPLITS, text)) return null;
  // One account cannot be taken apart by accounts.
  return text === 'account' && !all ? null : (text as Split); // It is one of the keys, as was seen.
}
