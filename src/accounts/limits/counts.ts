import { minuteTokens, UNITS, type TokenBucket, type ScopeLimits } from './scope-limits.ts';

/**
 * Usage of one scope. For calendar periods, `settled` is what finished requests have used and `reserved` is the
 * maximum that running requests may use; the limit applies to their sum.
 */
export interface ScopeCounts {
  /** Units used from the buckets, `UNITS` per request or token. Exceeds the capacity when the bucket is in debt. */
  readonly requestsSpent: number;
  readonly tokensSpent: number;
  readonly running: number;
  readonly daySettled: number;
  readonly dayReserved: number;
  readonly monthSettled: number;
  readonly monthReserved: number;
  /** Nano-dollars. */
  readonly nanoSettled: number;
  readonly nanoReserved: number;
}

/** The amounts that a request takes from each of its scopes. */
export interface RequestAmounts {
  /** The maximum that the request can use, in tokens and nano-dollars. */
  readonly tokens: number;
  readonly nano: number;
  /** Largest share of a bucket's tokens that one request reserves. */
  readonly reservedShare: number;
  /**
   * Factor by which a request counts: 1, or the number of instances while they cannot share counters, so that each
   * instance uses at most its share of the limit.
   */
  readonly weight: number;
}

/** Whether a scope has room for the request. `ADMIT` in `valkey-scripts.ts` implements the same rule. */
export function hasRoom(limits: ScopeLimits, counts: ScopeCounts, amounts: RequestAmounts): boolean {
  return (
    (limits.requests === null || bucketWaitMs(limits.requests, counts.requestsSpent, amounts.weight) === 0) &&
    (limits.tokens === null ||
      bucketWaitMs(limits.tokens, counts.tokensSpent, reservedTokens(limits.tokens, amounts)) === 0) &&
    (limits.inFlight === null || mayRun(limits.inFlight, counts.running, amounts.weight)) &&
    (limits.dayTokens === null ||
      counts.daySettled + (counts.dayReserved + amounts.tokens) * amounts.weight <= limits.dayTokens) &&
    (limits.monthTokens === null ||
      counts.monthSettled + (counts.monthReserved + amounts.tokens) * amounts.weight <= limits.monthTokens) &&
    (limits.monthNano === null ||
      counts.nanoSettled + (counts.nanoReserved + amounts.nano) * amounts.weight <= limits.monthNano)
  );
}

/**
 * Whether another request may run. Each instance may always run one request, even if the limit is below the number of
 * instances.
 */
export function mayRun(bound: number, running: number, weight: number): boolean {
  return running === 0 || (running + 1) * weight <= bound;
}

/** Returns the tokens that a request takes from the bucket, times its weight. */
export function reservedTokens(bucket: TokenBucket, amounts: RequestAmounts): number {
  return minuteTokens(bucket, amounts.tokens, amounts.reservedShare) * amounts.weight;
}

/** Returns the milliseconds until the amount is available, or until the bucket is full if that is less. */
export function bucketWaitMs(bucket: TokenBucket, spent: number, amount: number): number {
  const needed = Math.min(amount, bucket.capacity) * UNITS;
  const lacking = spent + needed - bucket.capacity * UNITS;
  return lacking <= 0 ? 0 : Math.ceil(lacking / bucket.perMinute);
}

/** Returns the whole requests or tokens left in a bucket, at least 0. */
export function bucketLeft(bucket: TokenBucket, spent: number): number {
  return Math.max(0, Math.floor(bucket.capacity - spent / UNITS));
}

/** Returns the milliseconds until the bucket is full. */
export function bucketResetMs(bucket: TokenBucket, spent: number): number {
  return Math.ceil(spent / bucket.perMinute);
}
