import { ServiceError } from '../errors.ts';

export interface QueueLimits {
  /** Requests that may wait for a slot of one model. */
  maxRequests: number;
  maxWaitMs: number;
}

/** Counts the requests of one model that wait for a slot. The engines keep their order. */
export class Queue {
  readonly limits: QueueLimits;
  waiting = 0;

  constructor(limits: QueueLimits) {
    this.limits = limits;
  }

  /** Enters the queue. Throws 503 `queue_full` if it is full. */
  enter(): QueueEntry {
    if (this.waiting >= this.limits.maxRequests) {
      throw new ServiceError(
        'queue_full',
        `The queue of this model is full: ${this.waiting} requests are waiting. Try again later.`,
        { retryAfterMs: 1000 },
      );
    }
    return new QueueEntry(this);
  }
}

export class QueueEntry {
  #queue: Queue | null;

  constructor(queue: Queue) {
    this.#queue = queue;
    queue.waiting++;
  }

  /** Leaves the queue. Idempotent. */
  leave(): void {
    if (this.#queue) this.#queue.waiting--;
    this.#queue = null;
  }
}
