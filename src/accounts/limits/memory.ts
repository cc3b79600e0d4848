import { SYSTEM_CLOCK, type Clock } from '../clock.ts';
import { dayOf } from '../ledger/days.ts';
import { periodsAt, type Periods } from './calendar.ts';
import { amountsOf, usedAmounts } from './counts.ts';
import { denialOf } from './denial.ts';
import { ActiveReservation } from './active-reservation.ts';
import { readHistory, sumHistory } from './history.ts';
import type {
  Consumption,
  Decision,
  Demand,
  LimitQuery,
  Limiter,
  LimitStatus,
  RateLimitHeaders,
  Reservation,
  LimitHistory,
} from './limiter.ts';
import { scopeId, scopesOf, scopesOfAllModels, type ScopeLimits } from './scope-limits.ts';
import { ScopeCounters, type Moment } from './scope-counters.ts';
import { headersOf, appliedLimits, limitStatuses } from './limit-status.ts';

export interface MemoryLimiterOptions {
  history: LimitHistory;
  /** Largest share of a bucket's tokens that one request reserves, above 0 and at most 1. */
  reservedShare: number;
  /**
   * How long the consumption of calendar periods is kept, in milliseconds, before it is read from the ledger again, with what
   * running requests of other instances reserve. Infinity, the default: no other instance uses the ledger.
   */
  rereadMs?: number;
  clock?: Clock;
}

/**
 * Counts limits in memory, for one instance. Synchronous, except for the first request of an account, which
 * reads its consumption from the ledger. Removes idle accounts with full buckets from memory.
 */
export class MemoryLimiter implements Limiter {
  readonly store = 'memory';
  readonly reachable = true;
  readonly #history: LimitHistory;
  readonly #reservedShare: number;
  readonly #rereadMs: number;
  readonly #clock: Clock;
  readonly #accounts = new Map<string, AccountState>();
  #periods: Periods = periodsAt(0);
  /** The last day that was counted before the wall clock was set back. */
  #countedBefore = -Infinity;
  #weight = 1;
  #scopes = 0;
  #sweepAt = SWEEP_AT;

  constructor({ history, reservedShare, rereadMs = Infinity, clock = SYSTEM_CLOCK }: MemoryLimiterOptions) {
    this.#history = history;
    this.#reservedShare = reservedShare;
    this.#rereadMs = rereadMs;
    this.#clock = clock;
  }

  admit(demand: Demand): Decision | Promise<Decision> {
    const scopes = scopesOf(demand);
    const now = this.#currentMoment();
    const states = this.#readyScopes(demand, scopes, now);
    return states === null ? this.#admitLater(demand, scopes) : this.#decide(demand, scopes, states, now);
  }

  release(reservation: Reservation, actual: Consumption): void {
    // All stores create reservations of this class.
    const active = reservation as ActiveReservation;
    const account = this.#accounts.get(active.accountId);
    if (active.released || account === undefined) return;
    active.released = true;
    account.active.delete(active);
    if (account.scopes.size > 0) {
      const now = this.#currentMoment();
      const used = usedAmounts(actual);
      for (const { id, admittedBy } of active.countedScopes()) {
        this.#scope(account, id, now)?.release(active, used, admittedBy, this.#weight, now);
      }
    } else if (account.active.size === 0 && account.reading === null) {
      this.#accounts.delete(active.accountId);
    }
  }

  async status(demand: LimitQuery): Promise<LimitStatus[]> {
    const scopes = demand.model === '' ? scopesOfAllModels(demand) : scopesOf(demand);
    const states = await this.#currentCounts(demand, scopes);
    return limitStatuses(states, this.#clock.now());
  }

  currentHeaders(demand: LimitQuery): RateLimitHeaders | Promise<RateLimitHeaders> {
    const scopes = scopesOf(demand);
    const states = this.#readyScopes(demand, scopes, this.#currentMoment());
    if (states !== null) return headersOf(states);
    return this.#currentCounts(demand, scopes).then(headersOf);
  }

  invalidate(): void {
    const now = this.#currentMoment();
    for (const { scopes } of this.#accounts.values()) for (const scope of scopes.values()) scope.unload(now);
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  /** Yields the reservations of all running requests. */
  *activeReservations(): Iterable<ActiveReservation> {
    for (const { active } of this.#accounts.values()) yield* active;
  }

  /** Counts a request that the shared store admitted, until it is settled. */
  adopt(active: ActiveReservation): void {
    this.#account(active.accountId).active.add(active);
  }

  /**
   * Removes all counters, but keeps the running requests. From then on, each request counts `instances` times, so that
   * the instances together stay within the limits.
   */
  restart(instances: number): void {
    this.#weight = instances;
    this.#scopes = 0;
    for (const [id, account] of this.#accounts) {
      account.scopes.clear();
      if (account.active.size === 0 && account.reading === null) this.#accounts.delete(id);
    }
  }

  #decide(
    demand: Demand,
    scopes: readonly ScopeLimits[],
    states: readonly ScopeCounters[],
    now: Moment,
  ): Decision {
    const amounts = amountsOf(demand, this.#reservedShare, this.#weight);
    const denial = denialOf(demand.plan, states, amounts, now.atMs);
    if (denial !== null) return { admitted: false, denial, headers: headersOf(states) };
    const active = new ActiveReservation(demand, scopes, amounts, now.periods);
    for (const state of states) state.take(active);
    this.#account(demand.accountId).active.add(active);
    active.appliedLimits = appliedLimits(states);
    return { admitted: true, reservation: active, headers: headersOf(states) };
  }

  async #admitLater(demand: Demand, scopes: readonly ScopeLimits[]): Promise<Decision> {
    for (;;) {
      await this.#read(demand, scopes);
      const now = this.#currentMoment();
      const states = this.#readyScopes(demand, scopes, now);
      if (states !== null) return this.#decide(demand, scopes, states, now);
    }
  }

  async #currentCounts(
    demand: LimitQuery,
    scopes: readonly ScopeLimits[],
  ): Promise<readonly ScopeCounters[]> {
    for (;;) {
      const states = this.#readyScopes(demand, scopes, this.#currentMoment());
      if (states !== null) return states;
      await this.#read(demand, scopes);
    }
  }

  /** Returns the up-to-date counters; null if the ledger must be read first. */
  #readyScopes(demand: LimitQuery, scopes: readonly ScopeLimits[], now: Moment): ScopeCounters[] | null {
    const states: ScopeCounters[] = [];
    if (scopes.length === 0) return states;
    const account = this.#accounts.get(demand.accountId);
    for (const limits of scopes) {
      const id = scopeId(limits.holder, demand.keyId, limits.model);
      const state = account && this.#scope(account, id, now);
      if (state === undefined) return null;
      state.advance(limits, now);
      const isOld = now.elapsedMs - state.loadedAtMs >= this.#rereadMs;
      if (state.loaded && (isOld || state.lacksBucket)) state.unload(now);
      if (!state.loaded) return null;
      states.push(state);
    }
    return states;
  }

  /** Reads an account from the ledger; concurrent requests share one read. */
  #read(demand: LimitQuery, scopes: readonly ScopeLimits[]): Promise<void> {
    if (this.#scopes >= this.#sweepAt) this.#sweep();
    const account = this.#account(demand.accountId);
    account.reading ??= this.#loadHistory(account, demand, scopes).finally(() => (account.reading = null));
    return account.reading;
  }

  async #loadHistory(
    account: AccountState,
    demand: LimitQuery,
    scopes: readonly ScopeLimits[],
  ): Promise<void> {
    const now = this.#currentMoment();
    for (const limits of scopes) {
      const id = scopeId(limits.holder, demand.keyId, limits.model);
      if (account.scopes.has(id)) continue;
      account.scopes.set(id, new ScopeCounters(limits, demand.keyId, now, account.active));
      this.#scopes++;
    }
    const unloaded = [...account.scopes.values()].filter(({ loaded }) => !loaded);
    const reads = unloaded.map((state) => ({ state, unloads: state.unload(now) }));
    const recentMs = Math.max(...scopes.map(({ refillMs }) => refillMs));
    const running = [...account.active].map(({ requestId }) => requestId);
    const keys = unloaded.map(({ keyId }) => keyId);
    const nowMs = this.#clock.now();
    const entries = await readHistory(this.#history, demand.accountId, keys, nowMs, recentMs, running);
    for (const { state, unloads } of reads) {
      const history = sumHistory(entries, state.keyId, state.model);
      // Without other instances, open rows are what an earlier process left.
      if (this.#rereadMs < Infinity) for (const count of history) count.settled += count.reserved;
      state.load(history, now, unloads);
    }
  }

  /**
   * Returns the counters of a scope. If the wall clock was set back to a day that was already counted, drops them, so
   * that the consumption of that day is read from the ledger.
   */
  #scope(account: AccountState, id: string, now: Moment): ScopeCounters | undefined {
    const scope = account.scopes.get(id);
    if (scope === undefined || scope.day === now.periods.day || now.periods.day > this.#countedBefore)
      return scope;
    account.scopes.delete(id);
    return undefined;
  }

  #account(id: string): AccountState {
    let account = this.#accounts.get(id);
    if (account === undefined) {
      account = { scopes: new Map(), active: new Set(), reading: null };
      this.#accounts.set(id, account);
    }
    return account;
  }

  /** Removes idle accounts. Runs again when the number of scopes has doubled, so that the amortized cost is small. */
  #sweep(): void {
    const { elapsedMs } = this.#currentMoment();
    this.#scopes = 0;
    for (const [id, account] of this.#accounts) {
      if (account.reading === null) {
        for (const [key, state] of account.scopes) if (state.isIdle(elapsedMs)) account.scopes.delete(key);
        if (account.scopes.size === 0 && account.active.size === 0) this.#accounts.delete(id);
      }
      this.#scopes += account.scopes.size;
    }
    this.#sweepAt = Math.max(SWEEP_AT, 2 * this.#scopes);
  }

  #currentMoment(): Moment {
    const atMs = this.#clock.now();
    const day = dayOf(atMs);
    const counted = this.#periods.day;
    if (day !== counted) {
      if (day < counted) this.#countedBefore = Math.max(this.#countedBefore, counted);
      this.#periods = periodsAt(atMs);
    }
    return { atMs, elapsedMs: Math.floor(this.#clock.elapsed()), periods: this.#periods };
  }
}

interface AccountState {
  scopes: Map<string, ScopeCounters>;
  /** Running requests, counted in every scope that covers them. */
  active: Set<ActiveReservation>;
  reading: Promise<void> | null;
}

/** Number of scopes at which the first sweep runs. */
const SWEEP_AT = 4096;
