/** Pauses between attempts while writing fails, in milliseconds: the first, doubled up to the longest. */
export interface RetryPauses {
  firstMs: number;
  longestMs: number;
}

export const RETRY_PAUSES: RetryPauses = { firstMs: 50, longestMs: 1000 };

/** An outage that begins within so many milliseconds of the last one is retried with the longest pause. */
const RELAPSE_MS = 10_000;

/** The time during which the database takes no writes: retries with growing pauses from `begin` to `end`. */
export class Outage {
  readonly #pauses: RetryPauses;
  readonly #retry: () => Promise<void>;
  #current: { since: number; pauseMs: number; reason: string } | null = null;
  #endedAt = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  #retrying = false;
  #disposed = false;

  /** `retry` tries to write and never rejects; the next attempt begins a pause after it has ended. */
  constructor(pauses: RetryPauses, retry: () => Promise<void>) {
    this.#pauses = pauses;
    this.#retry = retry;
  }

  /** Whether there is an outage now. */
  get active(): boolean {
    return this.#current !== null;
  }

  /** The newest fault, and how long the outage has lasted, in milliseconds; null: there is none. */
  get current(): { reason: string; sinceMs: number } | null {
    if (this.#current === null) return null;
    const { reason, since } = this.#current;
    return { reason, sinceMs: Math.round(performance.now() - since) };
  }

  /** Begins an outage, or notes the newest fault of the present one. Returns whether it began. */
  begin(reason: string): boolean {
    if (this.#current !== null) {
      this.#current.reason = reason;
      return false;
    }
    const since = performance.now();
    // A disk with a little space left must not be tried, or logged, many times a second.
    const pauseMs = since - this.#endedAt < RELAPSE_MS ? this.#pauses.longestMs : this.#pauses.firstMs;
    this.#current = { since, pauseMs, reason };
    this.#schedule();
    return true;
  }

  /** Ends the outage. Returns how long it lasted, in milliseconds; null: there was none. */
  end(): number | null {
    const { current } = this;
    if (current === null) return null;
    this.#current = null;
    this.#endedAt = performance.now();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return current.sinceMs;
  }

  /** Retries no more. */
  [Symbol.dispose](): void {
    this.#disposed = true;
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#current === null || this.#retrying || this.#disposed) return;
    const { pauseMs } = this.#current;
    this.#current.pauseMs = Math.min(pauseMs * 2, this.#pauses.longestMs);
    this.#timer = setTimeout(() => void this.#attempt(), pauseMs).unref();
  }

  async #attempt(): Promise<void> {
    this.#timer = undefined;
    this.#retrying = true;
    await this.#retry();
    this.#retrying = false;
    this.#schedule();
  }
}
