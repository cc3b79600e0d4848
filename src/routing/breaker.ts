import type { Log } from '../support/log.ts';

/** Consecutive failures that pause a replica. */
const MAX_FAILURES = 5;

/** A replica is also paused if this share of its requests failed within this time, out of at least `MIN_REQUESTS`. */
const WINDOW_MS = 30_000;
const MAX_FAILED_SHARE = 0.5;
const MIN_REQUESTS = 20;

/** The first and the longest pause, in milliseconds. Each failed trial doubles the pause. */
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;

/** Pauses are shortened by up to this share, so that instances do not retry a replica at the same time. */
const JITTER = 0.2;

/**
 * The result of a request, as the breaker counts it. `inconclusive`: the replica neither completed the response nor
 * failed, for example after a disconnect or a 429.
 */
export type RequestResult = 'succeeded' | 'failed' | 'inconclusive';

/** Time and randomness, which tests replace. */
export interface BreakerClock {
  /** Milliseconds on a monotonic clock. */
  now(): number;
  /** From 0 up to 1. */
  random(): number;
}

export const SYSTEM_CLOCK: BreakerClock = { now: () => performance.now(), random: () => Math.random() };

/** The reason and remaining time of a pause. */
export interface BreakerPause {
  reason: string;
  /** In milliseconds; 0: the next request is the trial, or the trial is running. */
  retryInMs: number;
}

/**
 * Circuit breaker of one replica. Pauses it after 5 consecutive failures, or if at least half of 20 or more requests
 * within 30 seconds failed. Then lets one trial request through at a time. A trial that starts to respond ends the
 * pause; a trial that fails starts a longer one. Without a breaker, a replica that fails fast would look idle and
 * attract more requests.
 */
export class CircuitBreaker {
  readonly #log: Log;
  readonly #clock: BreakerClock;
  /** Failures since the last success. */
  #failures = 0;
  #paused = false;
  #pausedUntilMs = 0;
  /** Length of the latest pause; 0: none since the last success. */
  #pauseMs = 0;
  /** Trials that are running. */
  #trials = 0;
  #closedAtMs = -Infinity;
  /** Number of pauses so far. Results of requests that were admitted before the latest pause are ignored. */
  #pauses = 0;
  #reason = '';
  /** Requests that succeeded or failed. */
  readonly #recentRequests = new WindowCount(WINDOW_MS);
  readonly #recentFailures = new WindowCount(WINDOW_MS);

  constructor(log: Log, clock: BreakerClock) {
    this.#log = log;
    this.#clock = clock;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Number of pauses so far, including those after failed trials. */
  get pauses(): number {
    return this.#pauses;
  }

  /** Null while the replica is not paused. */
  get pause(): BreakerPause | null {
    if (!this.#paused) return null;
    const leftMs = Math.ceil(this.#pausedUntilMs - this.#clock.now());
    return { reason: this.#reason, retryInMs: Math.max(0, leftMs) };
  }

  /** Whether the pause is over and no trial is running. */
  get trialDue(): boolean {
    return this.#paused && this.#trials === 0 && this.#clock.now() >= this.#pausedUntilMs;
  }

  /** When the pause ends, on the clock. */
  get pausedUntilMs(): number {
    return this.#pausedUntilMs;
  }

  /** When the latest pause ended, on the clock. */
  get closedAtMs(): number {
    return this.#closedAtMs;
  }

  /** Lets a request through. Returns its ticket, for `responseStarted` and `recordResult`. */
  admit(): number {
    if (this.#paused) this.#trials++;
    return this.#pauses;
  }

  /** Records that the replica started to respond. Ends the pause, but the next failure starts another. */
  responseStarted(ticket: number): void {
    if (!this.#paused || ticket !== this.#pauses) return;
    this.#paused = false;
    this.#trials = 0;
    this.#failures = MAX_FAILURES - 1;
    this.#closedAtMs = this.#clock.now();
    this.#log.info('replica responds again');
  }

  /** Records the result of a request; `error` is its failure. Call once per ticket. */
  recordResult(ticket: number, result: RequestResult, error?: unknown): void {
    if (ticket !== this.#pauses) return;
    if (result !== 'inconclusive') this.#recentRequests.add(this.#clock.now());
    if (result === 'succeeded') {
      this.responseStarted(ticket);
      this.#failures = 0;
      this.#pauseMs = 0;
    } else if (result === 'failed') {
      this.#failures++;
      this.#recentFailures.add(this.#clock.now());
      const failures = this.#tooManyFailures();
      if (failures !== null) this.#open(failures, error);
    } else if (this.#paused) this.#trials--;
  }

  /** Why the replica must be paused; null if it need not be. */
  #tooManyFailures(): string | null {
    if (this.#paused || this.#failures >= MAX_FAILURES) return `${this.#failures} consecutive failures`;
    const requests = this.#recentRequests.total(this.#clock.now());
    const failures = this.#recentFailures.total(this.#clock.now());
    if (requests < MIN_REQUESTS || failures < MAX_FAILED_SHARE * requests) return null;
    return `${failures} of ${requests} requests within ${WINDOW_MS / 1000} s failed`;
  }

  #open(failures: string, error: unknown): void {
    const wasPaused = this.#paused;
    this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, FIRST_PAUSE_MS), LONGEST_PAUSE_MS);
    this.#pausedUntilMs = this.#clock.now() + this.#pauseMs * (1 - JITTER * this.#clock.random());
    this.#paused = true;
    this.#pauses++;
    this.#trials = 0;
    this.#reason = `${failures}; last: ${reasonOf(error)}`;
    this.#recentRequests.clear();
    this.#recentFailures.clear();
    if (wasPaused) return;
    this.#log.warn('replica paused', {
      reason: failures,
      pauseMs: this.#pauseMs,
      cause: reasonOf(error),
    });
  }
}

/** Returns the message of the innermost cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? reasonOf(error.cause) : error.message;
}

/** Parts of a window. Events are forgotten in parts, not one by one. */
const PARTS = 6;

/** Counts events of the last `windowMs` milliseconds, accurate to a sixth of the window. */
export class WindowCount {
  readonly #partMs: number;
  readonly #counts = Array.from({ length: PARTS }, () => 0);
  /** Number of the newest part, from the start of the clock. */
  #newest = 0;
  #sum = 0;

  constructor(windowMs: number) {
    this.#partMs = windowMs / PARTS;
  }

  /** Counts an event. `nowMs` must not decrease. */
  add(nowMs: number): void {
    this.#advance(nowMs);
    this.#counts[this.#newest % PARTS] = (this.#counts[this.#newest % PARTS] ?? 0) + 1;
    this.#sum++;
  }

  /** Returns the events in the window. */
  total(nowMs: number): number {
    this.#advance(nowMs);
    return this.#sum;
  }

  clear(): void {
    this.#counts.fill(0);
    this.#sum = 0;
  }

  #advance(nowMs: number): void {
    const part = Math.floor(nowMs / this.#partMs);
    if (part - this.#newest >= PARTS) this.clear();
    else {
      for (let old = this.#newest + 1; old <= part; old++) {
        this.#sum -= this.#counts[old % PARTS] ?? 0;
        this.#counts[old % PARTS] = 0;
      }
    }
    this.#newest = Math.max(part, this.#newest);
  }
}
