import { bucketResetMs, hasRoom, tokensTaken, type Ask, type Counts } from './counts.ts';
import type { Held } from './held.ts';
import type { ScopeHistory } from './history.ts';
import type { Actual } from './limits.ts';
import { nanoOfPico } from './money.ts';
import { UNITS, type Bucket, type ScopeLimits } from './scope-limits.ts';

/** A moment: on the clock that never runs backwards, in whole milliseconds, and on the calendar. */
export interface Moment {
  elapsedMs: number;
  day: number;
  month: number;
}

/** The counters of one scope of an account in the memory of this process. */
export class Scope implements Counts {
  requestsSpent = 0;
  tokensSpent = 0;
  running = 0;
  daySettled = 0;
  dayHeld = 0;
  monthSettled = 0;
  monthHeld = 0;
  nanoSettled = 0;
  nanoHeld = 0;
  /** Whether the ledger has been asked what was settled before this scope was counted here. */
  known = false;
  readonly keyId: string | null;
  readonly model: string | null;
  #limits: ScopeLimits;
  #at: Moment;
  #fresh = true;

  /** Holds what `live` holds of it. */
  constructor(limits: ScopeLimits, keyId: string, now: Moment, live: Iterable<Held>) {
    this.keyId = limits.scope === 'key' ? keyId : null;
    this.model = limits.model;
    this.#limits = limits;
    this.#at = now;
    for (const held of live) if (this.#covers(held)) this.#hold(held);
  }

  /** The UTC day that it counts. */
  get day(): number {
    return this.#at.day;
  }

  /** Brings the counters to this moment, under the limits that hold now. */
  advance(limits: ScopeLimits, now: Moment): void {
    const passedMs = now.elapsedMs - this.#at.elapsedMs;
    this.requestsSpent = refilled(limits.requests, this.requestsSpent, passedMs);
    this.tokensSpent = refilled(limits.tokens, this.tokensSpent, passedMs);
    if (now.day !== this.#at.day) this.daySettled = this.dayHeld = 0;
    if (now.month !== this.#at.month) {
      this.monthSettled = this.monthHeld = this.nanoSettled = this.nanoHeld = 0;
    }
    this.#at = now;
    this.#limits = limits;
  }

  hasRoom(ask: Ask): boolean {
    return hasRoom(this.#limits, this, ask);
  }

  take(held: Held, ask: Ask): void {
    if (this.#limits.requests !== null) this.requestsSpent += ask.weight * UNITS;
    if (this.#limits.tokens !== null) this.tokensSpent += tokensTaken(this.#limits.tokens, ask) * UNITS;
    this.#hold(held);
  }

  /** Puts what was used in the place of what was held. */
  settle(held: Held, actual: Actual, admittedBy: ScopeLimits | undefined, weight: number, now: Moment): void {
    this.advance(this.#limits, now);
    this.running--;
    if (held.day === this.#at.day) {
      this.dayHeld -= held.tokens;
      this.daySettled += actual.tokens * weight;
    }
    if (held.month === this.#at.month) {
      this.monthHeld -= held.tokens;
      this.monthSettled += actual.tokens * weight;
      this.nanoHeld -= held.nano;
      this.nanoSettled += nanoOfPico(actual.pico) * weight;
    }
    if (admittedBy?.requests && !actual.request) {
      this.requestsSpent = Math.max(0, this.requestsSpent - weight * UNITS);
    }
    if (admittedBy?.tokens) {
      const beyond = (actual.tokens - held.minuteTokensOf(admittedBy)) * weight;
      this.tokensSpent = Math.max(0, this.tokensSpent + beyond * UNITS);
    }
  }

  /** Forgets what was settled, until `learn`; what is settled meanwhile counts on top of it. */
  forget(now: Moment): void {
    this.advance(this.#limits, now);
    this.known = false;
    this.daySettled = this.monthSettled = this.nanoSettled = 0;
  }

  /** Counts what the ledger knows, as of the day and month for which it was asked. */
  learn(history: ScopeHistory, asOf: Moment): void {
    this.known = true;
    if (asOf.day === this.#at.day) this.daySettled += history.dayTokens;
    if (asOf.month === this.#at.month) {
      this.monthSettled += history.monthTokens;
      this.nanoSettled += history.monthNano;
    }
    if (!this.#fresh) return;
    this.#fresh = false;
    const { requests, tokens } = this.#limits;
    if (requests) this.requestsSpent += Math.min(history.recentRequests, requests.capacity) * UNITS;
    if (tokens) this.tokensSpent += Math.min(history.recentTokens, tokens.capacity) * UNITS;
  }

  /** Whether nothing is lost when it is thrown away: nothing runs, and the buckets are full. */
  isIdle(elapsedMs: number): boolean {
    const { requests, tokens } = this.#limits;
    const passedMs = elapsedMs - this.#at.elapsedMs;
    return (
      this.running === 0 &&
      (requests === null || bucketResetMs(requests, this.requestsSpent) <= passedMs) &&
      (tokens === null || bucketResetMs(tokens, this.tokensSpent) <= passedMs)
    );
  }

  #covers({ keyId, model }: Held): boolean {
    return (this.keyId === null || this.keyId === keyId) && (this.model === null || this.model === model);
  }

  #hold(held: Held): void {
    this.running++;
    if (held.day === this.#at.day) this.dayHeld += held.tokens;
    if (held.month !== this.#at.month) return;
    this.monthHeld += held.tokens;
    this.nanoHeld += held.nano;
  }
}

function refilled(bucket: Bucket | null, spent: number, passedMs: number): number {
  return bucket === null ? 0 : Math.max(0, spent - passedMs * bucket.perMinute);
}
