import { bucketResetMs, hasRoom, reservedTokens, type RequestAmounts, type ScopeCounts } from './counts.ts';
import type { ActiveReservation } from './active-reservation.ts';
import type { ScopeHistory } from './history.ts';
import type { ActualUsage } from './limits.ts';
import { nanoOfPico } from './money.ts';
import { UNITS, type TokenBucket, type ScopeLimits } from './scope-limits.ts';

/** A moment in whole milliseconds on the monotonic clock, and its UTC day and month. */
export interface Moment {
  elapsedMs: number;
  day: number;
  month: number;
}

/** The counters of one scope in memory. */
export class ScopeCounters implements ScopeCounts {
  requestsSpent = 0;
  tokensSpent = 0;
  running = 0;
  daySettled = 0;
  dayReserved = 0;
  monthSettled = 0;
  monthReserved = 0;
  nanoSettled = 0;
  nanoReserved = 0;
  /** Whether the settled usage was read from the ledger. */
  loaded = false;
  readonly keyId: string | null;
  readonly model: string | null;
  #limits: ScopeLimits;
  #at: Moment;
  #unloads = 0;
  /** Whether the recent usage in the ledger was subtracted from the buckets. */
  #bucketsLoaded = false;

  /** Starts with the `live` reservations that this scope covers. */
  constructor(limits: ScopeLimits, keyId: string, now: Moment, live: Iterable<ActiveReservation>) {
    this.keyId = limits.scope === 'key' ? keyId : null;
    this.model = limits.model;
    this.#limits = limits;
    this.#at = now;
    for (const active of live) if (this.#covers(active)) this.#reserve(active);
  }

  /** The UTC day being counted. */
  get day(): number {
    return this.#at.day;
  }

  /** Updates the counters to this moment and the current limits. */
  advance(limits: ScopeLimits, now: Moment): void {
    const passedMs = now.elapsedMs - this.#at.elapsedMs;
    this.requestsSpent = spentAfterRefill(limits.requests, this.requestsSpent, passedMs);
    this.tokensSpent = spentAfterRefill(limits.tokens, this.tokensSpent, passedMs);
    if (now.day !== this.#at.day) this.daySettled = this.dayReserved = 0;
    if (now.month !== this.#at.month) {
      this.monthSettled = this.monthReserved = this.nanoSettled = this.nanoReserved = 0;
    }
    this.#at = now;
    this.#limits = limits;
  }

  hasRoom(amounts: RequestAmounts): boolean {
    return hasRoom(this.#limits, this, amounts);
  }

  take(active: ActiveReservation, amounts: RequestAmounts): void {
    if (this.#limits.requests !== null) this.requestsSpent += amounts.weight * UNITS;
    if (this.#limits.tokens !== null)
      this.tokensSpent += reservedTokens(this.#limits.tokens, amounts) * UNITS;
    this.#reserve(active);
  }

  /** Replaces a reservation with what was used. */
  settle(
    active: ActiveReservation,
    actual: ActualUsage,
    admittedBy: ScopeLimits | undefined,
    weight: number,
    now: Moment,
  ): void {
    this.advance(this.#limits, now);
    this.running--;
    if (active.day === this.#at.day) {
      this.dayReserved -= active.tokens;
      this.daySettled += actual.tokens * weight;
    }
    if (active.month === this.#at.month) {
      this.monthReserved -= active.tokens;
      this.monthSettled += actual.tokens * weight;
      this.nanoReserved -= active.nano;
      this.nanoSettled += nanoOfPico(actual.pico) * weight;
    }
    if (admittedBy?.requests && !actual.request) {
      this.requestsSpent = Math.max(0, this.requestsSpent - weight * UNITS);
    }
    if (admittedBy?.tokens) {
      const beyond = (actual.tokens - active.minuteTokensOf(admittedBy)) * weight;
      this.tokensSpent = Math.max(0, this.tokensSpent + beyond * UNITS);
    }
  }

  /**
   * Clears the settled usage until `load` restores it from the ledger. Usage that is settled in between is kept. Returns
   * a number that identifies the read of the ledger that begins now.
   */
  unload(now: Moment): number {
    this.advance(this.#limits, now);
    this.loaded = false;
    this.daySettled = this.monthSettled = this.nanoSettled = 0;
    return ++this.#unloads;
  }

  /**
   * Adds the usage read from the ledger for the day and month of `asOf`. Ignores a read that began before the latest
   * `unload`: it left out requests that were running then, whose usage has been cleared since.
   */
  load(history: ScopeHistory, asOf: Moment, unloads: number): void {
    if (unloads !== this.#unloads) return;
    this.loaded = true;
    if (asOf.day === this.#at.day) this.daySettled += history.dayTokens;
    if (asOf.month === this.#at.month) {
      this.monthSettled += history.monthTokens;
      this.nanoSettled += history.monthNano;
    }
    if (this.#bucketsLoaded) return;
    this.#bucketsLoaded = true;
    const { requests, tokens } = this.#limits;
    if (requests) this.requestsSpent += Math.min(history.recentRequests, requests.capacity) * UNITS;
    if (tokens) this.tokensSpent += Math.min(history.recentTokens, tokens.capacity) * UNITS;
  }

  /** Whether these counters can be removed: no request is running, and the buckets are full. */
  isIdle(elapsedMs: number): boolean {
    const { requests, tokens } = this.#limits;
    const passedMs = elapsedMs - this.#at.elapsedMs;
    return (
      this.running === 0 &&
      (requests === null || bucketResetMs(requests, this.requestsSpent) <= passedMs) &&
      (tokens === null || bucketResetMs(tokens, this.tokensSpent) <= passedMs)
    );
  }

  #covers({ keyId, model }: ActiveReservation): boolean {
    return (this.keyId === null || this.keyId === keyId) && (this.model === null || this.model === model);
  }

  #reserve(active: ActiveReservation): void {
    this.running++;
    if (active.day === this.#at.day) this.dayReserved += active.tokens;
    if (active.month !== this.#at.month) return;
    this.monthReserved += active.tokens;
    this.nanoReserved += active.nano;
  }
}

function spentAfterRefill(bucket: TokenBucket | null, spent: number, passedMs: number): number {
  return bucket === null ? 0 : Math.max(0, spent - passedMs * bucket.perMinute);
}
