import { WindowCount } from '../routing/breaker.ts';

/** Maximum accounts that are remembered between two checks. Those after them are checked with their next request. */
const MAX_ACCOUNTS = 10_000;
/** Maximum models whose errors are counted. */
const MAX_MODELS = 1000;

export interface EndedRequest {
  /** Null: unknown. */
  accountId: string | null;
  model: string | null;
  status: number;
  /** Error code; null: completed. */
  code: string | null;
}

/** Failed and all requests in the window. */
export interface ErrorCount {
  /** Null: the whole service. */
  model: string | null;
  failed: number;
  requests: number;
}

/**
 * What alerts need to know of the requests of this instance. Recording one costs a few additions, and memory is bounded.
 */
export class Traffic {
  readonly #windowMs: number;
  readonly #now: () => number;
  readonly #service: Errors;
  readonly #models = new Map<string, Errors>();
  #accounts = new Set<string>();

  /** `now` returns milliseconds on a monotonic clock. */
  constructor(windowMs: number, now: () => number = () => performance.now()) {
    this.#windowMs = windowMs;
    this.#now = now;
    this.#service = new Errors(windowMs);
  }

  /** Records a request. Never throws. Refused requests do not count as requests, because callers cause them. */
  record({ accountId, model, status, code }: EndedRequest): void {
    if (accountId !== null && this.#accounts.size < MAX_ACCOUNTS) this.#accounts.add(accountId);
    const failed = status >= 500;
    if (!failed && code !== null && code !== 'client_disconnected') return;
    const nowMs = this.#now();
    this.#service.add(nowMs, failed);
    if (model !== null) this.#of(model)?.add(nowMs, failed);
  }

  /** Returns the counts of the service and of each model with requests. */
  errors(): ErrorCount[] {
    const nowMs = this.#now();
    return [
      { model: null, ...this.#service.count(nowMs) },
      ...[...this.#models].map(([model, errors]) => ({ model, ...errors.count(nowMs) })),
    ];
  }

  /** Returns the accounts with requests since the last call. */
  takeAccounts(): ReadonlySet<string> {
    const accounts = this.#accounts;
    this.#accounts = new Set();
    return accounts;
  }

  #of(model: string): Errors | undefined {
    let errors = this.#models.get(model);
    if (errors === undefined && this.#models.size < MAX_MODELS) {
      this.#models.set(model, (errors = new Errors(this.#windowMs)));
    }
    return errors;
  }
}

class Errors {
  readonly #requests: WindowCount;
  readonly #failed: WindowCount;

  constructor(windowMs: number) {
    this.#requests = new WindowCount(windowMs);
    this.#failed = new WindowCount(windowMs);
  }

  add(nowMs: number, failed: boolean): void {
    this.#requests.add(nowMs);
    if (failed) this.#failed.add(nowMs);
  }

  count(nowMs: number): { failed: number; requests: number } {
    return { failed: this.#failed.total(nowMs), requests: this.#requests.total(nowMs) };
  }
}
