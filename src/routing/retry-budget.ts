import { WindowCount } from './window-count.ts';

const WINDOW_MS = 60_000;

export interface RetryLimits {
  /** Maximum retries in the last minute, as a share of the requests in that minute: 0 to 1. */
  share: number;
  /** Retries per minute that are always allowed. */
  minPerMinute: number;
}

/** Bounds the retries of one model, so that failing replicas do not receive a multiple of the load. */
export class RetryBudget {
  readonly #limits: RetryLimits;
  readonly #requests = new WindowCount(WINDOW_MS);
  readonly #retries = new WindowCount(WINDOW_MS);

  constructor(limits: RetryLimits) {
    this.#limits = limits;
  }

  countRequest(nowMs: number): void {
    this.#requests.add(nowMs);
  }

  /** Counts a retry if it is within the budget. Returns whether it is. */
  take(nowMs: number): boolean {
    const { share, minPerMinute } = this.#limits;
    const allowed = Math.max(minPerMinute, share * this.#requests.total(nowMs));
    if (this.#retries.total(nowMs) >= allowed) return false;
    this.#retries.add(nowMs);
    return true;
  }
}
