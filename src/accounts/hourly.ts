import { loggable } from '../database/errors.ts';
import type { Log } from '../support/log.ts';

const HOUR_MS = 3_600_000;

/** Work of every hour, such as deleting old rows, one run at a time. A failure is logged, and the next run retries. */
export class Hourly implements AsyncDisposable {
  readonly #work: (signal: AbortSignal) => Promise<void>;
  readonly #failure: string;
  readonly #log: Log;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();

  /** `work` should end soon once the signal is aborted. `failure`: what the log says if it rejects. */
  constructor(work: (signal: AbortSignal) => Promise<void>, failure: string, log: Log) {
    this.#work = work;
    this.#failure = failure;
    this.#log = log;
    this.#timer = setInterval(() => void this.run(), HOUR_MS).unref();
  }

  /** Runs the work now, after a run in progress. Never rejects. */
  run(): Promise<void> {
    this.#running = this.#running
      .then(() => this.#work(this.#stop.signal))
      .catch((error: unknown) => this.#log.warn(`${this.#failure}; will retry`, { error: loggable(error) }));
    return this.#running;
  }

  /** Waits for the run in progress. */
  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.#stop.abort();
    await this.#running;
  }
}
