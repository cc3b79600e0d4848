/** An account's use of a model. */
export class AccountShare {
  readonly accountId: string;
  /** Its share of a contended model, relative to other accounts. Above 0. */
  weight = 1;
  /** Requests that are running. */
  running = 0;
  /** Requests that are waiting. */
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
