import type { Log } from '../log.ts';

/** Failures in a row that pause a replica. */
const MOST_FAILURES = 5;

/** The first pause and the longest one, in milliseconds. Each one that ends in another failure is followed by a pause twice as long. */
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 60_000;

/** Pauses are up to this share shorter, so that the instances of a service do not try a replica again all at once. */
const JITTER = 0.2;

/** How a request ended for its replica. `inconclusive`: through no fault of the replica, and without a response. */
export type RequestResult = 'succeeded' | 'failed' | 'inconclusive';

/** Time and chance, for tests to replace. */
export interface BreakerClock {
  /** Milliseconds; never goes backwards. */
  now(): number;
  /** From 0 up to 1. */
  random(): number;
}

export const SYSTEM_CLOCK: BreakerClock = { now: () => performance.now(), random: () => Math.random() };

/** Why a replica is paused, and for how much longer. */
export interface Pause {
  reason: string;
  /** In milliseconds; 0: the next request is the trial, or it is running. */
  retryInMs: number;
}

/**
 * Circuit breaker of one replica: pauses it after 5 failures in a row, then lets one trial request through at a
 * time. A trial that begins to respond ends the pause; one that fails starts a longer one. Failing fast looks idle
 * to any policy that counts requests in flight, so without this a broken replica attracts the traffic.
 */
export class CircuitBreaker {
  readonly #log: Log;
  readonly #clock: BreakerClock;
  /** Failures since the last success. */
  #failures = 0;
  #paused = false;
  #pausedUntilMs = 0;
  /** Length of the last pause since the last success; 0: none. */
  #pauseMs = 0;
  /** Requests that were let through during this pause and have not ended. */
  #trials = 0;
  /** Pauses so far. A request that was let through before the latest one says nothing new. */
  #pauses = 0;
  #reason = '';

  constructor(log: Log, clock: BreakerClock) {
    this.#log = log;
    this.#clock = clock;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /** Null while the replica is not paused. */
  get pause(): Pause | null {
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

  /** Lets a request through. Returns its ticket, for `began` and `ended`. */
  admit(): number {
    if (this.#paused) this.#trials++;
    return this.#pauses;
  }

  /** The replica has begun to respond to the request. Ends the pause, but the next failure starts it again. */
  began(ticket: number): void {
    if (!this.#paused || ticket !== this.#pauses) return;
    this.#paused = false;
    this.#trials = 0;
    this.#failures = MOST_FAILURES - 1;
    this.#log.info('replica responds again');
  }

  /** The request has ended; `error` is what failed. Called once for each ticket. */
  ended(ticket: number, result: RequestResult, error?: unknown): void {
    if (ticket !== this.#pauses) return;
    if (result === 'succeeded') {
      this.began(ticket);
      this.#failures = 0;
      this.#pauseMs = 0;
    } else if (result === 'failed') {
      this.#failures++;
      if (this.#paused || this.#failures >= MOST_FAILURES) this.#open(error);
    } else if (this.#paused) this.#trials--;
  }

  #open(error: unknown): void {
    const wasPaused = this.#paused;
    this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, FIRST_PAUSE_MS), LONGEST_PAUSE_MS);
    this.#pausedUntilMs = this.#clock.now() + this.#pauseMs * (1 - JITTER * this.#clock.random());
    this.#paused = true;
    this.#pauses++;
    this.#trials = 0;
    this.#reason = `${this.#failures} consecutive failures; last: ${reasonOf(error)}`;
    if (wasPaused) return;
    this.#log.warn('replica paused after consecutive failures', {
      failures: this.#failures,
      pauseMs: this.#pauseMs,
      cause: reasonOf(error),
    });
  }
}

/** What happened, for operators: an error of ours keeps it in its cause. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? reasonOf(error.cause) : error.message;
}
