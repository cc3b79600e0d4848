import type { LimitName } from '../../config/plan.ts';
import { formatDuration, periodAround } from './calendar.ts';
import { leftOf, refillMs, type Count, type ScopeCounts } from './counts.ts';
import { BUCKETS } from './kinds.ts';
import type { LimitStatus, RateLimitHeaders } from './limiter.ts';
import { usdOfNano } from './money.ts';
import type { Limit, ScopeLimits } from './scope-limits.ts';

/** The `x-ratelimit-*` headers of each bucket. */
const HEADERS = BUCKETS.map(({ index, unit }) => ({
  index,
  limit: `x-ratelimit-limit-${unit}`,
  remaining: `x-ratelimit-remaining-${unit}`,
  reset: `x-ratelimit-reset-${unit}`,
}));

/** The names of all `x-ratelimit-*` headers. */
export const LIMIT_HEADERS: readonly string[] = (['limit', 'remaining', 'reset'] as const).flatMap((word) =>
  HEADERS.map((names) => names[word]),
);

/**
 * Returns the `x-ratelimit-*` headers for the request limit and the token limit that have the least left. `limit` is
 * the bucket's capacity, `reset` the time until it is full.
 */
export function headersOf(scopes: readonly ScopeCounts[]): RateLimitHeaders {
  const headers: string[] = [];
  for (const names of HEADERS) {
    let tightest: Limit | null = null;
    let tightestCount: Count | null = null;
    let left = Infinity;
    for (const { limits, counts } of scopes) {
      const limit = limits.limits[names.index];
      const count = counts[names.index];
      if (!limit || !count) continue;
      const remaining = leftOf(limit, count);
      if (remaining >= left) continue;
      tightest = limit;
      tightestCount = count;
      left = remaining;
    }
    if (tightest === null || tightestCount === null) continue;
    const reset = formatDuration(refillMs(tightest, tightestCount));
    headers.push(names.limit, String(tightest.bound), names.remaining, String(left), names.reset, reset);
  }
  return headers;
}

export interface AppliedLimit {
  scope: 'account' | 'key';
  /** Null: all models. */
  model: string | null;
  limit: LimitName;
  /** The limit and what was left after this request: requests, tokens, or USD as a decimal string. */
  bound: number | string;
  left: number | string;
}

type AppliedLimitTuple = [
  scope: AppliedLimit['scope'],
  model: string | null,
  limit: LimitName,
  bound: number | string,
  left: number | string,
];

/**
 * Returns the limits that apply to a request, and how much remains of each, as JSON for the receipt. Runs for
 * every request, so it does not use `JSON.stringify`, which is slower. `readAppliedLimits` parses the result.
 */
export function appliedLimits(scopes: readonly ScopeCounts[]): string {
  let json = '';
  for (const { limits, counts } of scopes) {
    const starts = tupleStarts(limits);
    for (const count of counts) {
      const { limit } = count;
      if (limit === null) continue;
      const { index, unit } = count.kind;
      const left = leftOf(limit, count);
      // Cutting a comma off at the end would copy the text.
      const start = `${json === '' ? '[' : ','}${starts[index]}`;
      json += unit === 'usd' ? `${start}"${usdOfNano(left)}"]` : `${start}${left}]`;
    }
  }
  return json === '' ? '[]' : `${json}]`;
}

const TUPLE_STARTS = new WeakMap<ScopeLimits, readonly string[]>();

/** Returns the start of the JSON tuple of each limit. The rest, the amount left, differs between requests. */
function tupleStarts(scope: ScopeLimits): readonly string[] {
  let starts = TUPLE_STARTS.get(scope);
  if (starts === undefined) {
    starts = scope.limits.map((limit) => {
      if (limit === null) return '';
      const { kind, bound, perMinute } = limit;
      const shown = kind.unit === 'usd' ? usdOfNano(bound) : perMinute || bound;
      return `${JSON.stringify([scope.holder, scope.model, kind.name, shown]).slice(0, -1)},`;
    });
    TUPLE_STARTS.set(scope, starts);
  }
  return starts;
}

/** Parses the limits of a row of the ledger. */
export function readAppliedLimits(text: string): AppliedLimit[] {
  // Written by `appliedLimits`.
  const tuples = JSON.parse(text) as AppliedLimitTuple[];
  return tuples.map(([scope, model, limit, bound, left]) => ({ scope, model, limit, bound, left }));
}

/** Returns the current consumption of every limit. */
export function limitStatuses(scopes: readonly ScopeCounts[], nowMs: number): LimitStatus[] {
  return scopes.flatMap(({ limits, counts }) =>
    counts.flatMap((count) => {
      const limit = limits.limits[count.kind.index];
      return limit ? [statusOf(limits, limit, count, nowMs)] : [];
    }),
  );
}

function statusOf({ holder, model }: ScopeLimits, limit: Limit, count: Count, nowMs: number): LimitStatus {
  const { kind, bound } = limit;
  const status = { scope: holder, model, limit: kind.name, bound, reserved: 0, perMinute: null };
  switch (kind.window) {
    case 'minute': {
      const resetsAt = nowMs + refillMs(limit, count);
      return { ...status, used: bound - leftOf(limit, count), resetsAt, perMinute: limit.perMinute };
    }
    case 'running':
      return { ...status, used: count.reserved, reserved: count.reserved, resetsAt: null };
    default: {
      const { reserved } = count;
      const used = count.settled + reserved;
      const resetsAt = periodAround(kind.window, nowMs).toMs;
      if (kind.unit !== 'usd') return { ...status, used, reserved, resetsAt };
      const micro = (nano: number) => Math.ceil(nano / 1000);
      return { ...status, bound: micro(bound), used: micro(used), reserved: micro(reserved), resetsAt };
    }
  }
}
