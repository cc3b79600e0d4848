import { ServiceError } from '../../errors.ts';
import type { Pause } from './pause.ts';

/** Slots, assigned in the order of requests. */
export class SlotQueue {
  readonly #maxWaiting: number;
  #free: number;
  readonly #slots: number;
  readonly #waiting = new Set<() => void>();

  constructor(slots: number, maxWaiting: number) {
    this.#slots = slots;
    this.#free = slots;
    this.#maxWaiting = maxWaiting;
  }

  get inUse(): number {
    return this.#slots - this.#free;
  }

  get queued(): number {
    return this.#waiting.size;
  }

  /** Waits for a slot, which is in use until `release()`. Throws `queue_full`. */
  async acquire(pause: Pause): Promise<void> {
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    if (this.#waiting.size >= this.#maxWaiting) {
      throw new ServiceError(
        'queue_full',
        `The queue of this model is full: ${this.#waiting.size} requests are waiting. Try again later.`,
        { retryAfterMs: 1000 },
      );
    }
    await pause.until((done) => {
      this.#waiting.add(done);
      return () => this.#waiting.delete(done);
    });
  }

  release(): void {
    const [next] = this.#waiting;
    if (!next) this.#free++;
    else {
      this.#waiting.delete(next);
      next();
    }
  }
}
