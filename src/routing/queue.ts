import { ServiceError } from '../errors.ts';

export interface QueueLimits {
  /** Requests that may wait for a replica of one model. */
  maxRequests: number;
  maxWaitMs: number;
}

/**
 * Bounds the number of requests of one model that were accepted but not yet sent to a replica. A request that exceeds
 * the bound takes the place of a request of the account with the most ("longest queue drop"), so that no account can
 * keep the others out.
 */
export class Queue {
  readonly limits: QueueLimits;
  /**
   * The requests of each account that have entered and have not been sent yet, whether or not they have to wait.
   * Accounts and requests are in order of arrival. No set is empty.
   */
  readonly #entries = new Map<string, Set<QueueEntry>>();
  #size = 0;

  constructor(limits: QueueLimits) {
    this.limits = limits;
  }

  /**
   * Enters the queue. If `maxRequests` requests are already waiting, removes the latest request of the account with the
   * most and aborts its `stop` with 503 `queue_full`. Throws this error instead if no account has at least two
   * more requests than `accountId`. `free`: how many requests could be sent to replicas now.
   */
  enter(free: number, accountId: string, stop: AbortController): QueueEntry {
    if (this.#size >= this.limits.maxRequests + free) this.#makeRoom(accountId);
    const entry = new QueueEntry(this, accountId, stop);
    const entries = this.#entries.get(accountId);
    if (entries) entries.add(entry);
    else this.#entries.set(accountId, new Set([entry]));
    this.#size++;
    return entry;
  }

  #makeRoom(accountId: string): void {
    const own = this.#entries.get(accountId)?.size ?? 0;
    let most: ReadonlySet<QueueEntry> = new Set();
    for (const entries of this.#entries.values()) if (entries.size > most.size) most = entries;
    // With a difference of one, two accounts would remove each other's requests in turn.
    const latest = most.size > own + 1 ? [...most].at(-1) : undefined;
    if (!latest) throw this.#full('Try again later.');
    latest.leave();
    latest.stop.abort(
      this.#full(
        'This account had the most, so its latest request was removed for a request of another account. Try again later.',
      ),
    );
  }

  #full(rest: string): ServiceError {
    return new ServiceError(
      'queue_full',
      `The queue of this model is full: ${this.limits.maxRequests} requests are waiting. ${rest}`,
      { retryAfterMs: 1000 },
    );
  }

  /** Removes an entry. Idempotent. Called by `QueueEntry`. */
  remove(entry: QueueEntry): void {
    const entries = this.#entries.get(entry.accountId);
    if (entries?.delete(entry) !== true) return;
    if (entries.size === 0) this.#entries.delete(entry.accountId);
    this.#size--;
  }
}

export class QueueEntry {
  readonly accountId: string;
  /** Aborted if the request is removed. */
  readonly stop: AbortController;
  readonly #queue: Queue;

  constructor(queue: Queue, accountId: string, stop: AbortController) {
    this.#queue = queue;
    this.accountId = accountId;
    this.stop = stop;
  }

  /** Leaves the queue. Idempotent. */
  leave(): void {
    this.#queue.remove(this);
  }
}
