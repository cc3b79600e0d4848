import { minuteTokens, UNITS, type Bucket, type ScopeLimits } from './scope-limits.ts';

/**
 * What has been used of one scope, as a store tells it. Of calendar periods, `settled` is what requests that ended
 * have used, and `held` the most that running ones may use; their sum is what a bound is compared with.
 */
export interface Counts {
  /** Missing from the buckets, in units; more than the bucket holds: a debt. */
  readonly requestsSpent: number;
  readonly tokensSpent: number;
  readonly running: number;
  readonly daySettled: number;
  readonly dayHeld: number;
  readonly monthSettled: number;
  readonly monthHeld: number;
  /** Nano-dollars. */
  readonly nanoSettled: number;
  readonly nanoHeld: number;
}

/** What one request asks of every scope. */
export interface Ask {
  /** The most that it can use, in tokens and nano-dollars. */
  readonly tokens: number;
  readonly nano: number;
  /** Largest share of a minute's tokens that one request takes beforehand. */
  readonly reservedShare: number;
  /**
   * How many times each request counts: once, or, while copies of the service cannot count together, as many times
   * as there are copies. Each then gives at most its share away.
   */
  readonly weight: number;
}

/** Whether a scope has room for the request. The script of Valkey says the same (`ADMIT`). */
export function hasRoom(limits: ScopeLimits, counts: Counts, ask: Ask): boolean {
  return (
    (limits.requests === null || bucketWaitMs(limits.requests, counts.requestsSpent, ask.weight) === 0) &&
    (limits.tokens === null ||
      bucketWaitMs(limits.tokens, counts.tokensSpent, tokensTaken(limits.tokens, ask)) === 0) &&
    (limits.inFlight === null || hasPlace(limits.inFlight, counts.running, ask.weight)) &&
    (limits.dayTokens === null ||
      counts.daySettled + (counts.dayHeld + ask.tokens) * ask.weight <= limits.dayTokens) &&
    (limits.monthTokens === null ||
      counts.monthSettled + (counts.monthHeld + ask.tokens) * ask.weight <= limits.monthTokens) &&
    (limits.monthNano === null ||
      counts.nanoSettled + (counts.nanoHeld + ask.nano) * ask.weight <= limits.monthNano)
  );
}

/** A copy has at least one place in flight, however many copies share the limit. */
export function hasPlace(bound: number, running: number, weight: number): boolean {
  return running === 0 || (running + 1) * weight <= bound;
}

/** What a request takes from the bucket of tokens, weighed. */
export function tokensTaken(bucket: Bucket, ask: Ask): number {
  return minuteTokens(bucket, ask.tokens, ask.reservedShare) * ask.weight;
}

/** Milliseconds until so much can be taken; 0: now. What is more than the bucket waits for a full one. */
export function bucketWaitMs(bucket: Bucket, spent: number, amount: number): number {
  const needed = Math.min(amount, bucket.capacity) * UNITS;
  const lacking = spent + needed - bucket.capacity * UNITS;
  return lacking <= 0 ? 0 : Math.ceil(lacking / bucket.perMinute);
}

/** What is left in a bucket, whole requests or tokens; never below 0. */
export function bucketLeft(bucket: Bucket, spent: number): number {
  return Math.max(0, Math.floor(bucket.capacity - spent / UNITS));
}

/** Milliseconds until the bucket is full. */
export function bucketResetMs(bucket: Bucket, spent: number): number {
  return Math.ceil(spent / bucket.perMinute);
}
