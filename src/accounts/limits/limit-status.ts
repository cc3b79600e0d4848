import { endOfDay, endOfMonth, formatDuration } from './calendar.ts';
import { bucketLeft, bucketResetMs, type ScopeCounts } from './counts.ts';
import type { LimitName, LimitStatus, RateLimitHeaders } from './limits.ts';
import { usdOfNano } from './money.ts';
import { LIMIT_NAMES, type TokenBucket, type ScopeLimits } from './scope-limits.ts';

/**
 * Returns the `x-ratelimit-*` headers for the request limit and the token limit that have the least left. `limit` is
 * the bucket's capacity, `reset` the time until it is full.
 */
export function headersOf(scopes: readonly ScopeLimits[], counts: readonly ScopeCounts[]): RateLimitHeaders {
  const headers: string[] = [];
  for (const kind of ['requests', 'tokens'] as const) {
    let tightest: TokenBucket | null = null;
    let left = Infinity;
    let spent = 0;
    for (let index = 0; index < scopes.length; index++) {
      const bucket = scopes[index]?.[kind];
      const used = counts[index];
      if (!bucket || !used) continue;
      const missing = kind === 'requests' ? used.requestsSpent : used.tokensSpent;
      const remaining = bucketLeft(bucket, missing);
      if (remaining >= left) continue;
      tightest = bucket;
      left = remaining;
      spent = missing;
    }
    if (tightest === null) continue;
    headers.push(
      `x-ratelimit-limit-${kind}`,
      String(tightest.capacity),
      `x-ratelimit-remaining-${kind}`,
      String(left),
      `x-ratelimit-reset-${kind}`,
      formatDuration(bucketResetMs(tightest, spent)),
    );
  }
  return headers;
}

/** A limit that applied to a request. */
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
export function appliedLimits(scopes: readonly ScopeLimits[], counts: readonly ScopeCounts[]): string {
  let tuples = '';
  for (let index = 0; index < scopes.length; index++) {
    const limits = scopes[index];
    const used = counts[index];
    if (!limits || !used) continue;
    const { requests, tokens, inFlight, dayTokens, monthTokens, monthNano } = limits;
    const starts = tupleStarts(limits);
    if (requests !== null) tuples += `${starts.requests}${bucketLeft(requests, used.requestsSpent)}],`;
    if (tokens !== null) tuples += `${starts.tokens}${bucketLeft(tokens, used.tokensSpent)}],`;
    if (inFlight !== null) tuples += `${starts.inFlight}${Math.max(0, inFlight - used.running)}],`;
    if (dayTokens !== null)
      tuples += `${starts.dayTokens}${left(dayTokens, used.daySettled, used.dayReserved)}],`;
    if (monthTokens !== null)
      tuples += `${starts.monthTokens}${left(monthTokens, used.monthSettled, used.monthReserved)}],`;
    if (monthNano !== null) {
      const rest = usdOfNano(left(monthNano, used.nanoSettled, used.nanoReserved));
      tuples += `${starts.monthNano}"${rest}"],`;
    }
  }
  return `[${tuples.slice(0, -1)}]`;
}

type TupleStarts = Readonly<Record<keyof typeof LIMIT_NAMES, string>>;

const TUPLE_STARTS = new WeakMap<ScopeLimits, TupleStarts>();

/** Returns the start of the JSON tuple of each limit. The rest, the amount left, differs between requests. */
function tupleStarts(limits: ScopeLimits): TupleStarts {
  let starts = TUPLE_STARTS.get(limits);
  if (starts === undefined) {
    const start = (name: keyof typeof LIMIT_NAMES, bound: number | string = 0) =>
      `${JSON.stringify([limits.scope, limits.model, LIMIT_NAMES[name], bound]).slice(0, -1)},`;
    starts = {
      requests: start('requests', limits.requests?.perMinute),
      tokens: start('tokens', limits.tokens?.perMinute),
      inFlight: start('inFlight', limits.inFlight ?? 0),
      dayTokens: start('dayTokens', limits.dayTokens ?? 0),
      monthTokens: start('monthTokens', limits.monthTokens ?? 0),
      monthNano: start('monthNano', usdOfNano(limits.monthNano ?? 0)),
    };
    TUPLE_STARTS.set(limits, starts);
  }
  return starts;
}

/** Parses the limits of a row of the ledger. */
export function readAppliedLimits(text: string): AppliedLimit[] {
  // Written by `appliedLimits`.
  const tuples = JSON.parse(text) as AppliedLimitTuple[];
  return tuples.map(([scope, model, limit, bound, left]) => ({ scope, model, limit, bound, left }));
}

/** Returns the current usage of every limit. */
export function limitStatuses(
  scopes: readonly ScopeLimits[],
  counts: readonly ScopeCounts[],
  nowMs: number,
): LimitStatus[] {
  return scopes.flatMap((limits, index) => {
    const used = counts[index];
    return used === undefined ? [] : scopeStatuses(limits, used, nowMs);
  });
}

function scopeStatuses(limits: ScopeLimits, counts: ScopeCounts, nowMs: number): LimitStatus[] {
  const { scope, model, requests, tokens, inFlight, dayTokens, monthTokens, monthNano } = limits;
  const statuses: LimitStatus[] = [];
  const add = (
    name: keyof typeof LIMIT_NAMES,
    bound: number,
    used: number,
    resetsAt: number | null,
    perMinute: number | null = null,
  ): void => {
    statuses.push({ scope, model, limit: LIMIT_NAMES[name], bound, used, resetsAt, perMinute });
  };
  const addBucket = (name: 'requests' | 'tokens', bucket: TokenBucket, spent: number): void => {
    const used = bucket.capacity - bucketLeft(bucket, spent);
    add(name, bucket.capacity, used, nowMs + bucketResetMs(bucket, spent), bucket.perMinute);
  };
  if (requests !== null) addBucket('requests', requests, counts.requestsSpent);
  if (tokens !== null) addBucket('tokens', tokens, counts.tokensSpent);
  if (inFlight !== null) add('inFlight', inFlight, counts.running, null);
  if (dayTokens !== null) {
    add('dayTokens', dayTokens, counts.daySettled + counts.dayReserved, endOfDay(nowMs));
  }
  if (monthTokens !== null) {
    add('monthTokens', monthTokens, counts.monthSettled + counts.monthReserved, endOfMonth(nowMs));
  }
  if (monthNano !== null) {
    const used = Math.ceil((counts.nanoSettled + counts.nanoReserved) / 1000);
    add('monthNano', Math.ceil(monthNano / 1000), used, endOfMonth(nowMs));
  }
  return statuses;
}

function left(bound: number, settled: number, reserved: number): number {
  return Math.max(0, bound - settled - reserved);
}
