/**
 * Timers for timeouts. Node runs due timers before it reads sockets. After this process was suspended, starved of CPU
 * or blocked, a plain timer can therefore report a timeout although the data has already arrived. These timers let
 * Node read ready sockets first, and do not count the time during which the process was blocked.
 */

/** Delay of a timer, in milliseconds, above which the process must have been blocked. */
const BLOCKED_MS = 50;

/**
 * Calls `expire` once, after `ms` milliseconds. If the timer fires late, waits once more, for as long as it was late
 * (at most `ms`): it can take several turns of the event loop to process data that has already arrived.
 */
export class Deadline implements Disposable {
  readonly #ms: number;
  readonly #expire: () => void;
  #timer: NodeJS.Timeout;
  readonly #dueAtMs: number;
  #extended = false;
  #immediate: NodeJS.Immediate | undefined;

  constructor(ms: number, expire: () => void) {
    this.#ms = ms;
    this.#expire = expire;
    this.#timer = setTimeout(this.#fire, ms);
    this.#dueAtMs = performance.now() + ms;
  }

  readonly #fire = (): void => {
    const lateMs = performance.now() - this.#dueAtMs;
    if (!this.#extended && lateMs > BLOCKED_MS) {
      this.#extended = true;
      this.#timer = setTimeout(this.#fire, Math.min(lateMs, this.#ms));
    } else {
      // Immediates run after the poll phase, which reads every ready socket.
      this.#immediate = setImmediate(this.#expire);
    }
  };

  /** Cancels the deadline. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
  }
}

/** Rejects if the promise does not settle within `ms` milliseconds. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  using _ = new Deadline(ms, () => late.reject(new Error(`no response within ${ms} ms`)));
  return await Promise.race([promise, late.promise]);
}

/** Returns the length of a tick for these timeouts: a tenth of the shortest, between 20 ms and 1 s. */
export function tickMsFor(...timeoutsMs: readonly number[]): number {
  return Math.min(Math.max(Math.min(...timeoutsMs) / 10, 20), 1000);
}

/**
 * Calls `tick` every `ms` milliseconds, without keeping the process alive. Time during which the process was blocked
 * counts as one tick, so a timeout measured in ticks only counts time during which data could be received.
 */
export function tickEvery(ms: number, tick: () => void): Disposable {
  let immediate: NodeJS.Immediate | undefined;
  const timer = setInterval(() => (immediate = setImmediate(tick)), ms).unref();
  return {
    [Symbol.dispose]() {
      clearInterval(timer);
      clearImmediate(immediate);
    },
  };
}
