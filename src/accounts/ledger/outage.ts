/** Pauses between retries, in milliseconds: each doubles the previous one, up to the longest. */
export interface RetryPauses {
  firstMs: number;
  longestMs: number;
}

export const RETRY_PAUSES: RetryPauses = { firstMs: 50, longestMs: 1000 };

/** An outage that begins within this many milliseconds of the last one starts with the longest pause. */
const RELAPSE_MS = 10_000;

/** Tracks a period in which writes fail, and retries with growing pauses from `begin` to `end`. */
export class Outage {
  readonly #pauses: RetryPauses;
  readonly #retry: () => Promise<void>;
  #current: { since: number; pauseMs: number; reason: string } | null = null;
  #endedAt = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  #retrying = false;
  #disposed = false;

  /** `retry` tries to write, and never rejects. The next pause starts when it has ended. */
  constructor(pauses: RetryPauses, retry: () => Promise<void>) {
    this.#pauses = pauses;
    this.#retry = retry;
  }

  get active(): boolean {
    return this.#current !== null;
  }

  /** The latest error and the duration in milliseconds; null without an outage. */
  get current(): { reason: string; sinceMs: number } | null {
    if (this.#current === null) return null;
    const { reason, since } = this.#current;
    return { reason, sinceMs: Math.round(performance.now() - since) };
  }

  /** Starts an outage, or updates the reason of the current one. Returns whether it started. */
  begin(reason: string): boolean {
    if (this.#current !== null) {
      this.#current.reason = reason;
      return false;
    }
    const since = performance.now();
    // A nearly full disk would otherwise alternate between success and failure many times a second.
    const pauseMs = since - this.#endedAt < RELAPSE_MS ? this.#pauses.longestMs : this.#pauses.firstMs;
    this.#current = { since, pauseMs, reason };
    this.#schedule();
    return true;
  }

  /** Ends the outage. Returns its duration in milliseconds; null without an outage. */
  end(): number | null {
    const { current } = this;
    if (current === null) return null;
    this.#current = null;
    this.#endedAt = performance.now();
    clearTimeout(this.#timer);
    this.#timer = undefined;
    return current.sinceMs;
  }

  /** Stops retrying. */
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
