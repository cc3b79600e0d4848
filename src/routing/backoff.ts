import type { BreakerClock } from './breaker.ts';

/** By how much each accepted request raises the maximum above the threshold. */
const GROWTH = 1 / 8;

/** A server that has not responded to a request within this time, in milliseconds, has accepted it. */
const ACCEPTED_MS = 1000;

/**
 * Bounds the requests to a server that has responded with 429, as TCP does after a loss: none until its `retry-after`
 * has passed; then one that is not accepted yet, and one more with each that is (slow start), up to half of the number at
 * the 429. From then on, each accepted request raises the maximum by an eighth. Time alone does not raise it: a server
 * that still limits its rate would refuse many of those that wait.
 */
export class Backoff {
  readonly #clock: BreakerClock;
  #untilMs = -Infinity;
  /** Maximum requests that are not accepted yet. Infinity: no 429 so far. */
  #most = Infinity;
  #threshold = Infinity;
  /** The requests that were sent since the 429 and are not accepted yet, with the time. */
  readonly #sent = new Map<object, number>();

  constructor(clock: BreakerClock) {
    this.#clock = clock;
  }

  /** When the server accepts requests again, on the clock. */
  get untilMs(): number {
    return this.#untilMs;
  }

  /** How long the server accepts no requests, in milliseconds; 0: it accepts them. */
  get waitMs(): number {
    return Math.max(0, this.#untilMs - this.#clock.now());
  }

  /** How many more requests it may get now; 0 or less: none. */
  get free(): number {
    if (this.#most === Infinity) return Infinity;
    this.#acceptOld();
    return this.waitMs > 0 ? 0 : Math.floor(this.#most) - this.#sent.size;
  }

  sent(request: object): void {
    this.#sent.set(request, this.#clock.now());
  }

  /** Called when the server starts to respond. Idempotent. */
  accepted(request: object): void {
    if (this.#sent.delete(request)) this.#most += this.#most < this.#threshold ? 1 : GROWTH;
  }

  /** Called after a 429, before `ended`. Further ones of requests that were sent before only extend the time. */
  refused(retryAfterMs: number): void {
    if (this.waitMs === 0) {
      this.#acceptOld();
      this.#threshold = this.#sent.size / 2;
      this.#most = 1;
      this.#sent.clear();
    }
    this.#untilMs = Math.max(this.#untilMs, this.#clock.now() + retryAfterMs);
  }

  /** Called when a request has ended. Idempotent. */
  ended(request: object): void {
    this.#sent.delete(request);
  }

  #acceptOld(): void {
    const untilMs = this.#clock.now() - ACCEPTED_MS;
    for (const [request, sentMs] of this.#sent) {
      if (sentMs > untilMs) return;
      this.accepted(request);
    }
  }
}
