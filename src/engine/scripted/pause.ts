/**
 * The waiting of one request: each wait ends by itself or throws the signal's reason. One listener on the
 * signal a request and no more, since a wait comes with every token.
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

  /** 0 is no wait at all. */
  forMs(ms: number): Promise<void> {
    if (ms === 0) return Promise.resolve();
    return this.until((done) => {
      const timer = setTimeout(done, ms);
      return () => clearTimeout(timer);
    });
  }

  /** One turn of the event loop. */
  forATurn(): Promise<void> {
    return this.until((done) => {
      const turn = setImmediate(done);
      return () => clearImmediate(turn);
    });
  }

  /** Until the signal. */
  forEver(): Promise<void> {
    return this.until(() => () => {});
  }

  /** `begin` is given what ends the wait, and returns what undoes it when the signal came first. */
  until(begin: (done: () => void) => () => void): Promise<void> {
    if (this.#signal.aborted) return Promise.reject(asError(this.#signal.reason));
    return new Promise((resolve, reject) => {
      const undo = begin(() => {
        this.#reject = null;
        resolve();
      });
      this.#reject = (reason) => {
        undo();
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
