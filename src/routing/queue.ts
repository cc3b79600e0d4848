import { ServiceError } from '../errors.ts';

export interface QueueLimits {
  /** Requests that may wait for a slot of one model. */
  maxRequests: number;
  maxWaitMs: number;
}

/** The requests of one model that have no slot yet. It only counts them: the engines hold them in order. */
export class Queue {
  readonly limits: QueueLimits;
  waiting = 0;

  constructor(limits: QueueLimits) {
    this.limits = limits;
  }

  /** Takes a place. Throws 503 `queue_full` when as many wait as may. */
  enter(): QueuePlace {
    if (this.waiting >= this.limits.maxRequests) {
      throw new ServiceError(
        'queue_full',
        `The queue of this model is full: ${this.waiting} requests are waiting. Try again later.`,
        {
          retryAfterMs: 1000,
        },
      );
    }
    return new QueuePlace(this);
  }
}

/** One request's place in a queue. */
export class QueuePlace {
  #queue: Queue | null;

  constructor(queue: Queue) {
    this.#queue = queue;
    queue.waiting++;
  }

  /** The request waits no more. May be called again; only the first call counts. */
  leave(): void {
    if (this.#queue) this.#queue.waiting--;
    this.#queue = null;
  }
}
