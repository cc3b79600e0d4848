import { ServiceError } from '../../errors.ts';
import type { Pause } from './pause.ts';

/** Slots, and the requests that wait for one in the order in which they came. */
export class SlotQueue {
  readonly #most: number;
  #free: number;
  readonly #slots: number;
  readonly #waiting = new Set<() => void>();

  constructor(slots: number, mostWaiting: number) {
    this.#slots = slots;
    this.#free = slots;
    this.#most = mostWaiting;
  }

  get inUse(): number {
    return this.#slots - this.#free;
  }

  get queued(): number {
    return this.#waiting.size;
  }

  /** Waits for a slot; to be given back by `give()`. `queue_full` when as many wait as may. */
  async take(pause: Pause): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    if (this.#waiting.size >= this.#most) {
      throw new ServiceError(
        'queue_full',
        `The queue of this model is full: ${this.#waiting.size} requests are waiting. Try again later.`,
        {
          retryAfterMs: 1000,
        },
      );
    }
    await pause.until((done) => {
      this.#waiting.add(done);
      return () => this.#waiting.delete(done);
    });
  }

  /** Gives a slot back: to the request that has waited longest, or to none. */
  give(): void {
    const [next] = this.#waiting;
    if (!next) this.#free++;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}
