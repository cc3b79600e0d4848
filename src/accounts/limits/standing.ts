import { endOfDay, endOfMonth } from './calendar.ts';
import { bucketLeft, bucketResetMs, type Counts } from './counts.ts';
import { writeDuration } from './duration.ts';
import { writeHeldLimit } from './held-against.ts';
import type { LimitStanding, RateLimitHeaders } from './limits.ts';
import { usdOfNano } from './money.ts';
import { LIMIT_NAMES, type Bucket, type ScopeLimits } from './scope-limits.ts';

/**
 * The `x-ratelimit-*` headers: of requests and of tokens, the limit with the least left. `limit` is what the bucket
 * holds, `reset` how long it takes until it is full again.
 */
export function headersOf(scopes: readonly ScopeLimits[], counts: readonly Counts[]): RateLimitHeaders {
  const headers: string[] = [];
  for (const kind of ['requests', 'tokens'] as const) {
    let tightest: Bucket | null = null;
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
      writeDuration(bucketResetMs(tightest, spent)),
    );
  }
  return headers;
}

/**
 * The limits that a request was held against, for its receipt: what each allows and what it left, money as decimal
 * strings. Written by hand, because every request pays for it; `readHeldLimits` reads it.
 */
export function heldAgainst(scopes: readonly ScopeLimits[], counts: readonly Counts[]): string {
  const parts: string[] = [];
  for (let index = 0; index < scopes.length; index++) {
    const limits = scopes[index];
    const used = counts[index];
    if (!limits || !used) continue;
    const { requests, tokens, inFlight, dayTokens, monthTokens, monthNano } = limits;
    const { scope, model } = limits;
    const add = (name: keyof typeof LIMIT_NAMES, bound: string | number, left: string | number): void => {
      parts.push(writeHeldLimit({ scope, model, limit: LIMIT_NAMES[name], bound, left }));
    };
    if (requests !== null) add('requests', requests.perMinute, bucketLeft(requests, used.requestsSpent));
    if (tokens !== null) add('tokens', tokens.perMinute, bucketLeft(tokens, used.tokensSpent));
    if (inFlight !== null) add('inFlight', inFlight, Math.max(0, inFlight - used.running));
    if (dayTokens !== null) add('dayTokens', dayTokens, left(dayTokens, used.daySettled, used.dayHeld));
    if (monthTokens !== null) {
      add('monthTokens', monthTokens, left(monthTokens, used.monthSettled, used.monthHeld));
    }
    if (monthNano !== null) {
      const rest = usdOfNano(left(monthNano, used.nanoSettled, used.nanoHeld));
      add('monthNano', usdOfNano(monthNano), rest);
    }
  }
  return `[${parts.join(',')}]`;
}

/** Every limit as it stands now. */
export function standingOf(
  scopes: readonly ScopeLimits[],
  counts: readonly Counts[],
  nowMs: number,
): LimitStanding[] {
  return scopes.flatMap((limits, index) => {
    const used = counts[index];
    return used === undefined ? [] : standingIn(limits, used, nowMs);
  });
}

function standingIn(limits: ScopeLimits, counts: Counts, nowMs: number): LimitStanding[] {
  const { scope, model, requests, tokens, inFlight, dayTokens, monthTokens, monthNano } = limits;
  const standing: LimitStanding[] = [];
  const add = (
    name: keyof typeof LIMIT_NAMES,
    bound: number,
    used: number,
    resetsAt: number | null,
  ): void => {
    standing.push({ scope, model, limit: LIMIT_NAMES[name], bound, used, resetsAt });
  };
  const addBucket = (name: 'requests' | 'tokens', bucket: Bucket, spent: number): void => {
    const used = bucket.capacity - bucketLeft(bucket, spent);
    add(name, bucket.capacity, used, nowMs + bucketResetMs(bucket, spent));
  };
  if (requests !== null) addBucket('requests', requests, counts.requestsSpent);
  if (tokens !== null) addBucket('tokens', tokens, counts.tokensSpent);
  if (inFlight !== null) add('inFlight', inFlight, counts.running, null);
  if (dayTokens !== null) {
    add('dayTokens', dayTokens, counts.daySettled + counts.dayHeld, endOfDay(nowMs));
  }
  if (monthTokens !== null) {
    add('monthTokens', monthTokens, counts.monthSettled + counts.monthHeld, endOfMonth(nowMs));
  }
  if (monthNano !== null) {
    const used = Math.ceil((counts.nanoSettled + counts.nanoHeld) / 1000);
    add('monthNano', Math.ceil(monthNano / 1000), used, endOfMonth(nowMs));
  }
  return standing;
}

function left(bound: number, settled: number, held: number): number {
  return Math.max(0, bound - settled - held);
}
