import { ServiceError } from '../errors.ts';

export interface QueueLimits {
  /** Requests that may wait for a replica of one model. */
  maxRequests: number;
  maxWaitMs: number;
}

/** Bounds the number of requests of one model that were accepted but not yet sent to a replica. */
export class Queue {
  readonly limits: QueueLimits;
  /** Requests that have entered and have not been sent yet, whether or not they have to wait. */
  entered = 0;

  constructor(limits: QueueLimits) {
    this.limits = limits;
  }

  /**
   * Enters the queue. Throws 503 `queue_full` if `maxRequests` requests are already waiting. `free`: how many
   * requests could be sent to replicas now.
   */
  enter(free: number): QueueEntry {
    if (this.entered >= this.limits.maxRequests + free) {
      throw new ServiceError(
        'queue_full',
        `The queue of this model is full: ${this.limits.maxRequests} requests are waiting. Try again later.`,
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
    queue.entered++;
  }

  /** Leaves the queue. Idempotent. */
  leave(): void {
    if (this.#queue) this.#queue.entered--;
    this.#queue = null;
  }
}
