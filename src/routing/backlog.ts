import type { ConfigFile } from '../config/schema.ts';
import { ServiceError } from '../core/errors.ts';

export type QueueLimits = ConfigFile['queue'];

/**
 * Bounds the number of requests of one model that wait for a replica: they were accepted but not yet sent, or their
 * replica has failed. A request that exceeds the bound takes the place of a request of the account with the most
 * ("longest queue drop"), so that no account can keep the others out.
 */
export class Backlog {
  readonly limits: QueueLimits;
  /**
   * The waiting requests of each account, without those in `#continued`. Accounts are in the order in which they began
   * to wait. No set is empty.
   */
  readonly #entries = new Map<string, Set<BacklogEntry>>();
  /** Responses that wait to be continued. They are not removed, because their callers have received a part. */
  readonly #continued = new Set<BacklogEntry>();
  #size = 0;
  #arrivals = 0;

  constructor(limits: QueueLimits) {
    this.limits = limits;
  }

  /** Number of waiting requests. */
  get size(): number {
    return this.#size;
  }

  /**
   * Enters the backlog. If `maxRequests` requests are already waiting, removes the latest request of the account with the
   * most and aborts its `stop` with 503 `queue_full`. Throws this error instead if no account has at least two
   * more requests than `accountId`. `free` returns how many requests could be sent to replicas now.
   */
  enter(free: () => number, accountId: string, stop: AbortController): BacklogEntry {
    const { maxRequests } = this.limits;
    if (this.#size >= maxRequests && this.#size >= maxRequests + free()) {
      const own = this.#entries.get(accountId)?.size ?? 0;
      const most = this.#most();
      // With a difference of one, two accounts would remove each other's requests in turn.
      if (most.size <= own + 1) throw this.#full('Try again later.');
      this.#removeLatest(most);
    }
    const entry = new BacklogEntry(this, accountId, stop, this.#arrivals++);
    this.#add(entry);
    return entry;
  }

  /** Called by `BacklogEntry.waitAgain`. */
  enterAgain(entry: BacklogEntry, free: number): void {
    this.#add(entry);
    if (this.#size > this.limits.maxRequests + free) this.#removeLatest(this.#most());
  }

  /** Called by `BacklogEntry.waitToContinue`. */
  enterToContinue(entry: BacklogEntry): void {
    this.#continued.add(entry);
    this.#size++;
  }

  #add(entry: BacklogEntry): void {
    const entries = this.#entries.get(entry.accountId);
    if (entries) entries.add(entry);
    else this.#entries.set(entry.accountId, new Set([entry]));
    this.#size++;
  }

  /** The requests of the account with the most. */
  #most(): ReadonlySet<BacklogEntry> {
    let most: ReadonlySet<BacklogEntry> = new Set();
    for (const entries of this.#entries.values()) if (entries.size > most.size) most = entries;
    return most;
  }

  /** `entries` must not be empty. */
  #removeLatest(entries: ReadonlySet<BacklogEntry>): void {
    const latest = [...entries].reduce((a, b) => (a.arrival > b.arrival ? a : b));
    latest.leave();
    latest.stop.abort(
      this.#full(
        'This account had the most, so its latest request was removed for another one. Try again later.',
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

  /** Removes an entry. Idempotent. Called by `BacklogEntry`. */
  remove(entry: BacklogEntry): void {
    const entries = this.#entries.get(entry.accountId);
    if (!this.#continued.delete(entry) && entries?.delete(entry) !== true) return;
    if (entries?.size === 0) this.#entries.delete(entry.accountId);
    this.#size--;
  }
}

export class BacklogEntry {
  readonly accountId: string;
  /** Aborted if the request is removed. */
  readonly stop: AbortController;
  /** When the request first entered the backlog, as a sequence number. */
  readonly arrival: number;
  readonly #backlog: Backlog;

  constructor(backlog: Backlog, accountId: string, stop: AbortController, arrival: number) {
    this.#backlog = backlog;
    this.accountId = accountId;
    this.stop = stop;
    this.arrival = arrival;
  }

  /** Leaves the backlog. Idempotent. */
  leave(): void {
    this.#backlog.remove(this);
  }

  /**
   * Enters the backlog again, as early as before. If there are too many requests now, removes the latest one of the
   * account with the most, which can be this one. `free`: how many requests could be sent to replicas now.
   */
  waitAgain(free: number): void {
    this.#backlog.enterAgain(this, free);
  }

  /** Enters the backlog again to continue a response. The request is counted, but neither it nor another is removed. */
  waitToContinue(): void {
    this.#backlog.enterToContinue(this);
  }
}
