import { ServiceError } from '../core/errors.ts';
import { DAY_MS, dayOf } from './ledger/days.ts';
import { USAGE_DIMENSIONS, type UsageDimension } from './ledger/roll-ups.ts';
import type { UsageQuery } from './ledger/usage.ts';

/** A usage query as text parameters. */
export interface UsageParameters {
  /** Comma-separated `USAGE_DIMENSIONS`; omitted: a single total. */
  by?: string | undefined;
  /** The first day in UTC, such as `2026-11-21`; omitted: the first of this month. */
  from?: string | undefined;
  /** The day after the last one; omitted: tomorrow. If this day is not after `from`, the range is empty. */
  to?: string | undefined;
  /** The number of groups with the most tokens to read; omitted: all. Not with `hour`, `day` or `cursor`. */
  top?: number | undefined;
  cursor?: string | undefined;
}

/** Parses a usage query. Throws a `ServiceError` `invalid_value` (param `by`, `from`, `to` or `top`). */
export function parseUsageQuery(
  { by: dimensions, from, to, top, cursor }: UsageParameters,
  nowMs: number,
): Pick<UsageQuery, 'by' | 'fromDay' | 'toDay' | 'top' | 'cursor'> {
  const now = new Date(nowMs);
  const fromDay =
    from === undefined ? dayOf(Date.UTC(now.getUTCFullYear(), now.getUTCMonth())) : parseDay(from, 'from');
  const toDay = to === undefined ? dayOf(nowMs) + 1 : parseDay(to, 'to');
  const by = parseDimensions(dimensions);
  const isRanked = top !== undefined;
  if (isRanked && (by.length === 0 || by.includes('hour') || by.includes('day') || cursor !== undefined)) {
    throw new ServiceError(
      'invalid_value',
      '`top` requires `by` without `hour` and `day`, and no `cursor`.',
      { param: 'top' },
    );
  }
  return { by, fromDay, toDay, top, cursor };
}

function parseDimensions(text: string | undefined): UsageDimension[] {
  const words = text === undefined || text === '' ? [] : text.split(',');
  const known = USAGE_DIMENSIONS.filter((dimension) => words.includes(dimension));
  if (known.length === words.length) return words as UsageDimension[]; // Each is a dimension, without duplicates.
  throw new ServiceError(
    'invalid_value',
    `\`by\` must be a comma-separated list of ${USAGE_DIMENSIONS.join(', ')}, each at most once.`,
    { param: 'by' },
  );
}

function parseDay(text: string, param: string): number {
  const atMs = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  // JavaScript parses February 30 as a day in March.
  if (!Number.isNaN(atMs) && new Date(atMs).toISOString().startsWith(text)) return atMs / DAY_MS;
  throw new ServiceError('invalid_value', `\`${param}\` must be a day such as 2026-11-21.`, { param });
}
