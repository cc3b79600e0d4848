import { utcDay, utcMonth } from './calendar.ts';
import type { Ask } from './counts.ts';
import { denialOf } from './denial.ts';
import { Held } from './held.ts';
import { readHistory, sumHistory } from './history.ts';
import type {
  Actual,
  Decision,
  Demand,
  Limits,
  LimitStanding,
  RateLimitHeaders,
  Reservation,
  UsageHistory,
} from './limits.ts';
import { nanoOfPico } from './money.ts';
import { scopeId, scopesOf, scopesOfAllModels, type ScopeLimits } from './scope-limits.ts';
import { Scope, type Moment } from './scope.ts';
import { headersOf, heldAgainst, standingOf } from './standing.ts';

export interface MemoryLimitsOptions {
  history: UsageHistory;
  /** Largest share of a minute's tokens that one request sets aside, above 0 and at most 1. */
  reservedShare: number;
  clock?: LimitsClock;
}

export interface LimitsClock {
  /** Unix milliseconds. */
  now(): number;
  /** Milliseconds on a clock that never runs backwards. */
  elapsed(): number;
}

/** Limits counted in this process, for a service of one copy: at once, except for an account's first request. */
export function openMemoryLimits(options: MemoryLimitsOptions): Limits {
  return new MemoryLimits(options);
}

/**
 * Accounts are read from the ledger when they are first seen, and forgotten when nothing of theirs runs and their
 * buckets are full, so that memory holds those that are busy.
 */
export class MemoryLimits implements Limits {
  readonly store = 'memory';
  readonly reachable = true;
  readonly #history: UsageHistory;
  readonly #reservedShare: number;
  readonly #clock: LimitsClock;
  readonly #accounts = new Map<string, Account>();
  #now = { day: -Infinity, month: -Infinity };
  /** The last day that was counted when the wall clock was set back. */
  #countedBefore = -Infinity;
  #weight = 1;
  #scopes = 0;
  #sweepAt = SWEEP_AT;

  constructor({ history, reservedShare, clock = SYSTEM_CLOCK }: MemoryLimitsOptions) {
    this.#history = history;
    this.#reservedShare = reservedShare;
    this.#clock = clock;
  }

  admit(demand: Demand): Decision | Promise<Decision> {
    const scopes = scopesOf(demand);
    const now = this.#moment();
    const states = this.#known(demand, scopes, now);
    return states === null ? this.#admitLater(demand, scopes) : this.#decide(demand, scopes, states, now);
  }

  settle(reservation: Reservation, actual: Actual): void {
    // Reservations are made by a store of limits only, and all of them make this class.
    const held = reservation as Held;
    const account = this.#accounts.get(held.accountId);
    if (held.settled || account === undefined) return;
    held.settled = true;
    account.live.delete(held);
    if (account.scopes.size > 0) {
      const now = this.#moment();
      for (const { id, admittedBy } of held.counted()) {
        this.#scope(account, id, now)?.settle(held, actual, admittedBy, this.#weight, now);
      }
    } else if (account.live.size === 0 && account.reading === null) {
      this.#accounts.delete(held.accountId);
    }
  }

  async standing(demand: Asked): Promise<LimitStanding[]> {
    const scopes = demand.model === '' ? scopesOfAllModels(demand) : scopesOf(demand);
    const states = await this.#look(demand, scopes);
    return standingOf(scopes, states, this.#clock.now());
  }

  peek(demand: Asked): RateLimitHeaders | Promise<RateLimitHeaders> {
    const scopes = scopesOf(demand);
    const states = this.#known(demand, scopes, this.#moment());
    if (states !== null) return headersOf(scopes, states);
    return this.#look(demand, scopes).then((found) => headersOf(scopes, found));
  }

  recount(): void {
    const now = this.#moment();
    for (const { scopes } of this.#accounts.values()) for (const scope of scopes.values()) scope.forget(now);
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  /** Every running request that was admitted here or adopted. */
  *live(): Iterable<Held> {
    for (const { live } of this.#accounts.values()) yield* live;
  }

  /** Counts a request that another store admitted, until it is settled. */
  adopt(held: Held): void {
    this.#account(held.accountId).live.add(held);
  }

  /**
   * Forgets all but the running requests, and lets each request count as often as there are copies: together they
   * then give away no more than the limits.
   */
  restart(copies: number): void {
    this.#weight = copies;
    this.#scopes = 0;
    for (const [id, account] of this.#accounts) {
      account.scopes.clear();
      if (account.live.size === 0 && account.reading === null) this.#accounts.delete(id);
    }
  }

  #decide(demand: Demand, scopes: readonly ScopeLimits[], states: readonly Scope[], now: Moment): Decision {
    const ask = askOf(demand, this.#reservedShare, this.#weight);
    for (const state of states) {
      if (state.hasRoom(ask)) continue;
      const denial = denialOf(demand.plan, scopes, states, ask, this.#clock.now());
      return { admitted: false, denial, headers: headersOf(scopes, states) };
    }
    const { day, month } = now;
    const held = new Held(demand, scopes, ask, { day, month });
    for (const state of states) state.take(held, ask);
    this.#account(demand.accountId).live.add(held);
    held.heldAgainst = heldAgainst(scopes, states);
    return { admitted: true, reservation: held, headers: headersOf(scopes, states) };
  }

  async #admitLater(demand: Demand, scopes: readonly ScopeLimits[]): Promise<Decision> {
    for (;;) {
      await this.#read(demand, scopes);
      const now = this.#moment();
      const states = this.#known(demand, scopes, now);
      if (states !== null) return this.#decide(demand, scopes, states, now);
    }
  }

  async #look(demand: Asked, scopes: readonly ScopeLimits[]): Promise<readonly Scope[]> {
    for (;;) {
      const states = this.#known(demand, scopes, this.#moment());
      if (states !== null) return states;
      await this.#read(demand, scopes);
    }
  }

  /** The counters, brought to this moment; null where the ledger has to be asked first. */
  #known(demand: Asked, scopes: readonly ScopeLimits[], now: Moment): Scope[] | null {
    const states: Scope[] = [];
    if (scopes.length === 0) return states;
    const account = this.#accounts.get(demand.accountId);
    for (const limits of scopes) {
      const id = scopeId(limits.scope, demand.keyId, limits.model);
      const state = account && this.#scope(account, id, now);
      if (state === undefined || !state.known) return null;
      state.advance(limits, now);
      states.push(state);
    }
    return states;
  }

  /** Reads an account; requests that wait for the same one share the reading. */
  #read(demand: Asked, scopes: readonly ScopeLimits[]): Promise<void> {
    if (this.#scopes >= this.#sweepAt) this.#sweep();
    const account = this.#account(demand.accountId);
    account.reading ??= this.#readAnew(account, demand, scopes).finally(() => (account.reading = null));
    return account.reading;
  }

  async #readAnew(account: Account, demand: Asked, scopes: readonly ScopeLimits[]): Promise<void> {
    const now = this.#moment();
    for (const limits of scopes) {
      const id = scopeId(limits.scope, demand.keyId, limits.model);
      if (account.scopes.has(id)) continue;
      account.scopes.set(id, new Scope(limits, demand.keyId, now, account.live));
      this.#scopes++;
    }
    const unknown = [...account.scopes.values()].filter(({ known }) => !known);
    for (const state of unknown) state.forget(now);
    const recentMs = Math.max(...scopes.map(({ refillMs }) => refillMs));
    const entries = await readHistory(this.#history, demand.accountId, this.#clock.now(), recentMs);
    for (const state of unknown) state.learn(sumHistory(entries, state.keyId, state.model), now);
  }

  /** After the wall clock was set back, a day that has been counted before is read from the ledger. */
  #scope(account: Account, id: string, now: Moment): Scope | undefined {
    const scope = account.scopes.get(id);
    if (scope === undefined || scope.day === now.day || now.day > this.#countedBefore) return scope;
    account.scopes.delete(id);
    return undefined;
  }

  #account(id: string): Account {
    let account = this.#accounts.get(id);
    if (account === undefined) {
      account = { scopes: new Map(), live: new Set(), reading: null };
      this.#accounts.set(id, account);
    }
    return account;
  }

  /** Each sweep looks at everything, and the next one comes when twice as much is left: cheap over time. */
  #sweep(): void {
    const { elapsedMs } = this.#moment();
    this.#scopes = 0;
    for (const [id, account] of this.#accounts) {
      if (account.reading === null) {
        for (const [scope, state] of account.scopes)
          if (state.isIdle(elapsedMs)) account.scopes.delete(scope);
        if (account.scopes.size === 0 && account.live.size === 0) this.#accounts.delete(id);
      }
      this.#scopes += account.scopes.size;
    }
    this.#sweepAt = Math.max(SWEEP_AT, 2 * this.#scopes);
  }

  #moment(): Moment {
    const nowMs = this.#clock.now();
    const day = utcDay(nowMs);
    if (day !== this.#now.day) {
      if (day < this.#now.day) this.#countedBefore = Math.max(this.#countedBefore, this.#now.day);
      this.#now = { day, month: utcMonth(nowMs) };
    }
    return { elapsedMs: Math.floor(this.#clock.elapsed()), ...this.#now };
  }
}

type Asked = Omit<Demand, 'worstTokens' | 'worstPico'>;

interface Account {
  scopes: Map<string, Scope>;
  /** Running requests: each is held in every scope that covers it. */
  live: Set<Held>;
  reading: Promise<void> | null;
}

/** Scopes in memory before the first look for idle ones. */
const SWEEP_AT = 4096;

const SYSTEM_CLOCK: LimitsClock = { now: () => Date.now(), elapsed: () => performance.now() };

/** What a demand asks of every scope. */
export function askOf(demand: Demand, reservedShare: number, weight: number): Ask {
  return { tokens: demand.worstTokens, nano: nanoOfPico(demand.worstPico), reservedShare, weight };
}
