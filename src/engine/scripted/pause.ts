/**
 * The pauses of one request. They reject when the signal is aborted. The class adds one listener per request instead of
 * one per token.
 */
export class Pause implements Disposable {
  readonly #signal: AbortSignal;
  #reject: ((reason: unknown) => void) | null = null;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', this);
  }

  handleEvent(): void {
    this.#reject?.(this.#signal.reason);
  }

  forMs(ms: number): Promise<void> {
    if (ms === 0) return Promise.resolve();
    return this.until((done) => {
      const timer = setTimeout(done, ms);
      return () => clearTimeout(timer);
    });
  }

  yieldToEventLoop(): Promise<void> {
    return this.until((done) => {
      const turn = setImmediate(done);
      return () => clearImmediate(turn);
    });
  }

  untilAborted(): Promise<void> {
    return this.until(() => () => {});
  }

  /** `start` receives a function that ends the wait, and returns one that cancels it. */
  until(start: (done: () => void) => () => void): Promise<void> {
    if (this.#signal.aborted) return Promise.reject(asError(this.#signal.reason));
    return new Promise((resolve, reject) => {
      const cancel = start(() => {
        this.#reject = null;
        resolve();
      });
      this.#reject = (reason) => {
        cancel();
        reject(asError(reason));
      };
    });
  }

  [Symbol.dispose](): void {
    this.#signal.removeEventListener('abort', this);
  }
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}
