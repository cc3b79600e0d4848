import type { LimitName, PlanLimits } from '../../config/plan.ts';
import type { LimitKind, Unit } from './kinds.ts';

/** A request to be admitted. */
export interface Demand {
  /** The ID of its row in the ledger. */
  requestId: string;
  accountId: string;
  keyId: string;
  model: string;
  /** Name of the account's plan, for messages; null: the account has limits of its own. */
  plan: string | null;
  /** The limits of the account: its own over those of its plan. */
  planLimits: PlanLimits;
  /** Limits of the key, in addition to those of the plan; null: none. */
  keyLimits: PlanLimits | null;
  /** The maximum tokens that it can use, as computed by `worstCase`. */
  worstTokens: number;
  /** The cost of these tokens, in pico-dollars. */
  worstPico: bigint;
  /** Returns the same with a `max_tokens` of 1, for the message of a denial. */
  shortest: () => { tokens: number; pico: bigint };
}

/** Identifies the limits to read. */
export type LimitQuery = Omit<Demand, 'requestId' | 'worstTokens' | 'worstPico' | 'shortest'>;

/** The reservation of an admitted request. Must be released once. */
export interface Reservation {
  /** Reserved from the calendar limits; stored in the ledger. */
  readonly tokens: number;
  readonly pico: bigint;
  /** JSON of the limits that applied, for the receipt. */
  readonly appliedLimits: string;
}

/** The limit that denied a request: a value, not an error. */
export interface Denial {
  code: LimitKind['code'];
  limit: LimitName;
  /** Whose limit it is, and for which model; null: all models. */
  scope: 'account' | 'key';
  model: string | null;
  /** Shown to the caller: the limit, its bound and what was requested. */
  message: string;
  /** Milliseconds until the request would be admitted if no others arrived; null: waiting does not help. */
  retryAfterMs: number | null;
  /**
   * What is left of a calendar limit that the request exceeds, in tokens or nano-dollars: by ended requests or, if it fits
   * once running ones have ended (`waits`), also by these. Null: another kind of limit.
   */
  left: { unit: Unit; amount: number; waits: boolean } | null;
}

/** The `x-ratelimit-*` headers of the limits that apply, as a flat list of names and values. */
export type RateLimitHeaders = readonly string[];

export type Decision =
  | { admitted: true; reservation: Reservation; headers: RateLimitHeaders }
  | { admitted: false; denial: Denial; headers: RateLimitHeaders };

/** The consumption of a request. All zero if it failed, with `request: false` if the service is the cause. */
export interface Consumption {
  tokens: number;
  pico: bigint;
  /** Whether the request counts against request limits. */
  request: boolean;
}

/** Counts each request against all of its limits, or against none. */
export interface Limiter extends AsyncDisposable {
  /**
   * Returns a promise if the counters are in Valkey or must first be read from the ledger. Rejects with a
   * `ServiceError` `storage_unavailable` if the ledger cannot be read, or the store is unreachable and
   * `limits.whenStoreUnavailable` is `refuse`.
   */
  admit(demand: Demand): Decision | Promise<Decision>;
  /** Replaces the reservation with what was used, when the request has ended. Call once. Never throws. */
  release(reservation: Reservation, actual: Consumption): void;
  /** Returns the current headers without reserving anything, for a request that was refused before admission. */
  currentHeaders(query: LimitQuery): RateLimitHeaders | Promise<RateLimitHeaders>;
  /**
   * Returns the current consumption of each limit of the plan and, with `keyLimits`, of the key: for all models and for
   * `model`. With `model` `''`, includes every model that has its own limits.
   */
  status(query: LimitQuery): Promise<LimitStatus[]>;
  /** The store that counts consumption. */
  readonly store: 'memory' | 'valkey';
  /** Whether the store is reachable. If not, each instance applies its share of the limits, or refuses requests. */
  readonly reachable: boolean;
  /** Invalidates the cached calendar periods, so that they are read from the ledger again. */
  invalidate(): void;
}

/** The current consumption of one limit. */
export interface LimitStatus {
  scope: 'account' | 'key';
  /** Null: all models. */
  model: string | null;
  limit: LimitName;
  /** Requests, tokens or micro-dollars, rounded up. */
  bound: number;
  used: number;
  /** The part of `used` that running requests have reserved; 0 for limits per minute. */
  reserved: number;
  /** When the limit is fully available again, in Unix milliseconds; null for requests in flight. */
  resetsAt: number | null;
  /** The limit per minute, for which `bound` is the capacity of the bucket; null for other limits. */
  perMinute: number | null;
}

/** Reads the consumption of an account from the ledger, to initialize its counters. */
export interface LimitHistory {
  /**
   * Returns consumption by key and model, of requests that started in the UTC day and month of `atMs` (Unix milliseconds), or
   * in the last `recentMs`. All values are from one snapshot. Except for `minute`, they exclude the requests `exceptIds`: the
   * caller counts them itself, whether they are settled before or after the snapshot. Rejects with a `DatabaseError`.
   */
  read(
    holders: LimitHolders,
    atMs: number,
    recentMs: number,
    exceptIds: readonly string[],
  ): Promise<HistoryEntry[]>;
}

/** Whose consumption is read. An account can have many keys, and few of them have limits. */
export interface LimitHolders {
  accountId: string;
  /** The keys whose consumption is separate. */
  keyIds: readonly string[];
  /** Whether the consumption of all other keys of the account is included, as that of one key with an empty ID. */
  otherKeys: boolean;
}

/** Part of the consumption of one key and model. To be added to the other entries, because it can be negative. */
export interface HistoryEntry {
  /** Empty: `otherKeys`. */
  keyId: string;
  model: string;
  /**
   * `settled`: billed consumption of ended rows; interrupted and failed requests are not billed. For `minute`, refused ones count
   * as requests. `reserved`: by open rows, which are separate because a live instance tracks its own.
   */
  state: 'settled' | 'reserved';
  /** The windows in which it counts. For `minute`, open rows are settled, with the tokens that they reserve. */
  windows: readonly LimitKind['window'][];
  /** Only for `minute`. */
  requests: number;
  tokens: number;
  /** Not for `minute`. */
  pico: bigint;
}
