/** With at least this many requests, commits are at least `COMMIT_PACE_MS` milliseconds apart. */
const PACED_REQUESTS = 20;
const COMMIT_PACE_MS = 4;

/** Maximum delay of a write that nothing waits for, in milliseconds. */
const DELAY_MS = 100;

/** Decides when the next batch is written. */
export class WriteSchedule implements Disposable {
  readonly #write: () => void;
  readonly #writeDelayed: () => void;
  #scheduled = false;
  #lastWriteAtMs = -Infinity;
  #delay: NodeJS.Timeout | undefined;

  /** `writeDelayed` must also write the rows for which `later` was called. */
  constructor(write: () => void, writeDelayed: () => void) {
    this.#write = write;
    this.#writeDelayed = writeDelayed;
  }

  /**
   * Calls `write` at the end of this turn of the event loop, so that all writes of the turn share a commit. With many
   * `requests`, waits for `COMMIT_PACE_MS`, because committing one row costs as much as committing ten.
   */
  soon(requests: number): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const sinceMs = performance.now() - this.#lastWriteAtMs;
    if (requests < PACED_REQUESTS || sinceMs >= COMMIT_PACE_MS) setImmediate(this.#run);
    else setTimeout(this.#run, COMMIT_PACE_MS - sinceMs);
  }

  /** Calls `writeDelayed` within `DELAY_MS`. */
  later(): void {
    this.#delay ??= setTimeout(() => {
      this.#delay = undefined;
      this.#writeDelayed();
    }, DELAY_MS);
  }

  /** Records that a batch is being written. */
  writing(): void {
    this.#lastWriteAtMs = performance.now();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#delay);
  }

  readonly #run = (): void => {
    this.#scheduled = false;
    this.#write();
  };
}
