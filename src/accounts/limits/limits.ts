import type { PlanLimits } from '../../config/plan.ts';

/** What a request asks of its limits. */
export interface Demand {
  accountId: string;
  keyId: string;
  model: string;
  /** Name of the account's plan, and its limits. */
  plan: string;
  planLimits: PlanLimits;
  /** The key's own, below the plan's; null: none. */
  keyLimits: PlanLimits | null;
  /** The most that it can use: every prompt token, and all that `max_tokens` and the context allow. */
  worstTokens: number;
  /** The same as money, in pico-dollars. */
  worstPico: bigint;
}

/** What was set aside for one admitted request; given back by `settle`, once. */
export interface Reservation {
  /** Of the calendar limits, for the ledger's row. */
  readonly tokens: number;
  readonly pico: bigint;
  /** JSON of the limits it was held against, for the receipt: each with its scope, name, bound and what was left. */
  readonly heldAgainst: string;
}

type DenialCode = 'requests_per_minute' | 'tokens_per_minute' | 'concurrent_requests' | 'insufficient_quota';

/** A limit that said no, with its numbers: a value, not an error. */
export interface Denial {
  code: DenialCode;
  /** Public: names the limit, its bound and what was asked. */
  message: string;
  /** Alone on its account, a caller who waits so long is admitted; null: waiting does not help. Milliseconds. */
  retryAfterMs: number | null;
}

/** The six `x-ratelimit-*` headers as a flat list of names and values, each only where there is such a limit. */
export type RateLimitHeaders = readonly string[];

export type Decision =
  | { admitted: true; reservation: Reservation; headers: RateLimitHeaders }
  | { admitted: false; denial: Denial; headers: RateLimitHeaders };

/** What a request really used. All zero and `request: false` for one that our fault ended. */
export interface Actual {
  tokens: number;
  pico: bigint;
  /** Whether the request itself counts. */
  request: boolean;
}

/** All limits of a request are checked and taken together or not at all. */
export interface Limits extends AsyncDisposable {
  /**
   * At once where the state is in this process, a promise where it is not, or has to be read from the ledger first.
   * Rejects with a `ServiceError` `storage_unavailable` when the ledger cannot be read, or the store is away and
   * `limits.whenStoreIsAway` says `refuse`.
   */
  admit(demand: Demand): Decision | Promise<Decision>;
  /** Corrects what was set aside to what was used and ends the request's place in flight. Never throws; once. */
  settle(reservation: Reservation, actual: Actual): void;
  /** The headers of a request that was refused before it asked for anything: what `admit` would say of the rest. */
  peek(demand: Omit<Demand, 'worstTokens' | 'worstPico'>): RateLimitHeaders | Promise<RateLimitHeaders>;
  /**
   * What remains now of each limit of an account's plan and, where `keyLimits` are given, of the key's own, for all
   * models and for the one that is named; `''`: for every model that has limits of its own.
   */
  standing(demand: Omit<Demand, 'worstTokens' | 'worstPico'>): Promise<LimitStanding[]>;
  /** Where they are counted. */
  readonly store: 'memory' | 'valkey';
  /** Whether that place answers; while it does not, each copy of the service counts for itself, or refuses. */
  readonly reachable: boolean;
  /** Forgets what is remembered of calendar periods, so that it is read from the ledger anew. */
  recount(): void;
}

/** One limit as it stands. */
export interface LimitStanding {
  scope: 'account' | 'key';
  /** Null: all models. */
  model: string | null;
  limit: LimitName;
  /** Requests, tokens or micro-dollars. */
  bound: number;
  used: number;
  /** When it is whole again, Unix milliseconds; null for requests in flight. */
  resetsAt: number | null;
}

export type LimitName =
  | 'requestsPerMinute'
  | 'tokensPerMinute'
  | 'requestsInFlight'
  | 'tokensPerDay'
  | 'tokensPerMonth'
  | 'usdPerMonth';

/** What the ledger knows of an account, for limits that have to be counted anew. */
export interface UsageHistory {
  /**
   * By key and model, of the UTC day and month of `atMs` (Unix milliseconds) by the start of the requests, all from
   * one snapshot. Rejects with a `DatabaseError`.
   */
  usedBy(accountId: string, atMs: number, recentMs: number): Promise<HistoryEntry[]>;
}

export interface HistoryEntry {
  keyId: string;
  model: string;
  /** Billed tokens and money of rows that have ended: what a crash or a fault ended counts nothing. */
  dayTokens: number;
  monthTokens: number;
  monthPico: bigint;
  /** What open rows have reserved. Apart from the above: while a copy lives it knows better what it has open. */
  openDayTokens: number;
  openMonthTokens: number;
  openMonthPico: bigint;
  /** Requests that started in the last `recentMs`, and their tokens: reserved ones of open rows, billed of others. */
  recentRequests: number;
  recentTokens: number;
}
