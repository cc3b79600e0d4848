export interface QueuedRequest {
  readonly share: AccountShare;
  /** Whether it has failed on a replica. It then goes before the other requests of its account. */
  readonly isRetry: boolean;
}

/** The waiting requests of one account. */
interface Line<Request> {
  readonly share: AccountShare;
  /** First come, first served. */
  readonly first: Set<Request>;
  readonly retries: Set<Request>;
  /** The account's counter and last start when the line was last placed in the heap. */
  counter: number;
  lastStart: number;
  /** When the account began to wait, as a sequence number. */
  readonly order: number;
}

function firstOf<Request>({ retries, first }: Line<Request>): Request | undefined {
  const [request] = retries.size > 0 ? retries : first;
  return request;
}

/**
 * The waiting requests of one replica, fair between accounts: the account with the smallest counter goes next
 * ("virtual token counter", Sheng et al., OSDI 2024, https://arxiv.org/abs/2401.00588). Within an account, first come,
 * first served. Each operation takes O(log accounts).
 */
export class FairQueue<Request extends QueuedRequest> {
  readonly #lines = new Map<AccountShare, Line<Request>>();
  /** A binary heap of the lines, whose keys may have grown since they were placed. Empty lines are removed late. */
  readonly #heap: Line<Request>[] = [];
  #order = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The smallest counter of an account that waits here; null if none does. */
  get smallestCounter(): number | null {
    return this.#top()?.share.counter ?? null;
  }

  /** The request that `take` returns next; undefined if none waits here. */
  get first(): Request | undefined {
    const line = this.#top();
    return line && firstOf(line);
  }

  add(request: Request): void {
    const { share } = request;
    let line = this.#lines.get(share);
    if (!line) {
      const { counter, lastStart } = share;
      line = { share, first: new Set(), retries: new Set(), counter, lastStart, order: this.#order++ };
      this.#lines.set(share, line);
      this.#push(line);
    }
    (request.isRetry ? line.retries : line.first).add(request);
    share.waiting++;
    this.#size++;
  }

  /** Removes a request. Returns whether it was waiting here. */
  remove(request: Request): boolean {
    const line = this.#lines.get(request.share);
    const removed = line !== undefined && (line.first.delete(request) || line.retries.delete(request));
    if (removed) {
      request.share.waiting--;
      this.#size--;
    }
    return removed;
  }

  /**
   * Removes and returns the next request that `accepts` accepts, or undefined. Only the first request of each account
   * is offered.
   */
  take(accepts: (request: Request) => boolean = () => true): Request | undefined {
    const skipped: Line<Request>[] = [];
    let taken: Request | undefined;
    for (let line = this.#top(); line && !taken; line = this.#top()) {
      const request = firstOf(line);
      if (request && accepts(request)) taken = request;
      else skipped.push(this.#pop());
    }
    for (const line of skipped) this.#push(line);
    if (taken) this.remove(taken);
    return taken;
  }

  /** Removes and returns all requests. Those of one account are in the order in which they would be sent. */
  clear(): Request[] {
    const requests = [...this.#lines.values()].flatMap(({ retries, first }) => [...retries, ...first]);
    for (const request of requests) this.remove(request);
    return requests;
  }

  /** Returns the line of the account with the smallest counter, after updating the heap. */
  #top(): Line<Request> | undefined {
    for (let top = this.#heap[0]; top; top = this.#heap[0]) {
      if (top.first.size + top.retries.size === 0) this.#lines.delete(this.#pop().share);
      else if (top.share.counter > top.counter || top.share.lastStart > top.lastStart) {
        top.counter = top.share.counter;
        top.lastStart = top.share.lastStart;
        this.#siftDown(0);
      } else return top;
    }
    return undefined;
  }

  #push(line: Line<Request>): void {
    let index = this.#heap.push(line) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!this.#isBefore(index, parent)) break;
      this.#swap(index, parent);
      index = parent;
    }
  }

  /** Removes the first line of the heap, which must not be empty. */
  #pop(): Line<Request> {
    this.#swap(0, this.#heap.length - 1);
    const line = this.#heap.pop() as Line<Request>;
    this.#siftDown(0);
    return line;
  }

  #siftDown(from: number): void {
    let index = from;
    for (;;) {
      const left = 2 * index + 1;
      let first = index;
      if (left < this.#heap.length && this.#isBefore(left, first)) first = left;
      if (left + 1 < this.#heap.length && this.#isBefore(left + 1, first)) first = left + 1;
      if (first === index) return;
      this.#swap(index, first);
      index = first;
    }
  }

  /**
   * Among equal counters, the account whose last request started first goes first, and an account without one before
   * all of them. Otherwise, an account could wait for as long as new accounts arrive, which get the smallest counter.
   */
  #isBefore(index: number, other: number): boolean {
    const a = this.#heap[index] as Line<Request>;
    const b = this.#heap[other] as Line<Request>;
    if (a.counter !== b.counter) return a.counter < b.counter;
    return a.lastStart === b.lastStart ? a.order < b.order : a.lastStart < b.lastStart;
  }

  #swap(index: number, other: number): void {
    const line = this.#heap[index] as Line<Request>;
    this.#heap[index] = this.#heap[other] as Line<Request>;
    this.#heap[other] = line;
  }
}

/** An account's use of a model. */
export class AccountShare {
  readonly accountId: string;
  /** Its share of a contended model, relative to other accounts. Above 0. */
  weight = 1;
  running = 0;
  waiting = 0;
  /** When a request of the account last started, as a sequence number from 1; 0: never. */
  lastStart = 0;
  /** Work done for the account, in prompt tokens divided by its weight. Only grows. */
  counter = 0;

  constructor(accountId: string) {
    this.accountId = accountId;
  }

  get isActive(): boolean {
    return this.running > 0 || this.waiting > 0;
  }
}

/** Inactive accounts are forgotten when there are more accounts than this. */
const MAX_SHARES = 4096;

/** The accounts that use a model. */
export class AccountShares {
  readonly #shares = new Map<string, AccountShare>();
  /** The largest counter so far. */
  #largest = 0;
  /** Requests started so far. */
  #starts = 0;

  /** The accounts with running or waiting requests. */
  active(): AccountShare[] {
    return [...this.#shares.values()].filter((share) => share.isActive);
  }

  /** Returns the share of an account, with its current weight. */
  of(accountId: string, weight: number): AccountShare {
    let share = this.#shares.get(accountId);
    if (!share) {
      if (this.#shares.size >= MAX_SHARES) this.#forgetInactive();
      share = new AccountShare(accountId);
      this.#shares.set(accountId, share);
    }
    share.weight = weight;
    return share;
  }

  /**
   * Called before a request of the account waits. If the account has no waiting requests, raises its counter to
   * `smallest`, the smallest counter of the waiting accounts, so that it cannot accumulate credit while it is inactive.
   * If no account waits, `smallest` is null, and the counter is raised to the largest so far: all accounts start equal.
   */
  lift(share: AccountShare, smallest: number | null): void {
    if (share.waiting === 0) share.counter = Math.max(share.counter, smallest ?? this.#largest);
  }

  /** Records that a request of the account starts. */
  start(share: AccountShare): void {
    share.running++;
    share.lastStart = ++this.#starts;
  }

  /** Adds work that was done for an account, in prompt tokens. */
  charge(share: AccountShare, work: number): void {
    share.counter += work / share.weight;
    this.#largest = Math.max(this.#largest, share.counter);
  }

  #forgetInactive(): void {
    for (const [accountId, share] of this.#shares) if (!share.isActive) this.#shares.delete(accountId);
  }
}
