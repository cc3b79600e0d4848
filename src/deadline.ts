/**
 * Timers that end a wait. Node runs due timers before it reads sockets, so after this process stood still (suspended,
 * starved of CPU, or busy in one long turn) a plain timer ends waits whose result has already arrived. These timers
 * let ready sockets be read first, and they do not count time in which the process stood still.
 */

/** A timer that fires later than this is late because the process stood still, in milliseconds. */
const STANDSTILL_MS = 50;

/**
 * Calls `expire` once, after `ms` milliseconds. A timer that fires late is extended once by its delay, by its own length
 * at most: what arrived in the meantime can take several turns of the event loop to end the wait.
 */
export class Deadline implements Disposable {
  readonly #ms: number;
  readonly #expire: () => void;
  #timer: NodeJS.Timeout;
  readonly #dueAtMs: number;
  #extended = false;
  #reading: NodeJS.Immediate | undefined;

  constructor(ms: number, expire: () => void) {
    this.#ms = ms;
    this.#expire = expire;
    this.#timer = setTimeout(this.#fire, ms);
    this.#dueAtMs = performance.now() + ms;
  }

  readonly #fire = (): void => {
    const lateMs = performance.now() - this.#dueAtMs;
    if (!this.#extended && lateMs > STANDSTILL_MS) {
      this.#extended = true;
      this.#timer = setTimeout(this.#fire, Math.min(lateMs, this.#ms));
    } else {
      // Immediates run after the poll phase, which reads every ready socket.
      this.#reading = setImmediate(this.#expire);
    }
  };

  /** Cancels the deadline. */
  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#reading);
  }
}

/**
 * Calls `tick` every `ms` milliseconds, without keeping the process alive. Time in which the process stood still
 * counts as one tick, so a wait measured in ticks is time in which the other side could have been heard.
 */
export function tickEvery(ms: number, tick: () => void): Disposable {
  let reading: NodeJS.Immediate | undefined;
  const timer = setInterval(() => (reading = setImmediate(tick)), ms).unref();
  return {
    [Symbol.dispose]() {
      clearInterval(timer);
      clearImmediate(reading);
    },
  };
}
