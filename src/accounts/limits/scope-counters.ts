import type { ActiveReservation } from './active-reservation.ts';
import { inSamePeriod, type Periods } from './calendar.ts';
import { amountIn, bucketAmount, Count, refillMs, type Amounts, type ScopeCounts } from './counts.ts';
import { KINDS } from './kinds.ts';
import { PARTS, type ScopeLimits } from './scope-limits.ts';

export interface Moment {
  /** Unix milliseconds. */
  readonly atMs: number;
  /** Whole milliseconds on the monotonic clock. */
  readonly elapsedMs: number;
  readonly periods: Periods;
}

/** The counters of one scope in memory. */
export class ScopeCounters implements ScopeCounts {
  readonly counts: readonly Count[] = KINDS.map((kind) => new Count(kind));
  /** Whether the settled consumption was read from the ledger. */
  loaded = false;
  /** When it was read, in whole milliseconds on the monotonic clock. */
  loadedAtMs = 0;
  readonly keyId: string | null;
  readonly model: string | null;
  limits: ScopeLimits;
  #at: Moment;
  #unloads = 0;
  /** Whether a limit per minute is new, so that what was used before must be read. */
  lacksBucket = false;
  /** The kinds, as bits, from whose buckets the recent consumption in the ledger was subtracted. */
  #buckets = 0;

  /** Starts with the `live` reservations that this scope covers. */
  constructor(limits: ScopeLimits, keyId: string, now: Moment, live: Iterable<ActiveReservation>) {
    this.keyId = limits.holder === 'key' ? keyId : null;
    this.model = limits.model;
    this.limits = limits;
    this.#apply(limits);
    this.#at = now;
    for (const active of live) if (this.#covers(active)) this.#reserve(active);
  }

  /** The UTC day being counted. */
  get day(): number {
    return this.#at.periods.day;
  }

  /** Updates the counters to this moment and the current limits. */
  advance(limits: ScopeLimits, now: Moment): void {
    const passedMs = now.elapsedMs - this.#at.elapsedMs;
    if (limits !== this.limits) this.#apply(limits);
    for (const count of this.counts) {
      const { limit, kind } = count;
      if (kind.window === 'minute') {
        count.settled = limit === null ? 0 : Math.max(0, count.settled - passedMs * limit.perMinute);
      } else if (!inSamePeriod(kind.window, now.periods, this.#at.periods)) {
        count.settled = count.reserved = 0;
      }
    }
    this.#at = now;
  }

  take({ amounts }: ActiveReservation): void {
    for (const count of this.counts) {
      const { limit, kind } = count;
      if (kind.window !== 'minute') count.reserved += amountIn(kind.unit, amounts);
      else if (limit !== null) count.settled += bucketAmount(limit, amounts) * amounts.weight * PARTS;
    }
  }

  /** Replaces a reservation with what was used. */
  release(
    { amounts, periods }: ActiveReservation,
    used: Amounts,
    admittedBy: ScopeLimits | undefined,
    weight: number,
    now: Moment,
  ): void {
    this.advance(this.limits, now);
    for (const count of this.counts) {
      const { index, window, unit } = count.kind;
      if (window === 'minute') {
        const limit = admittedBy?.limits[index];
        if (!limit) continue;
        const beyond = (amountIn(unit, used) - bucketAmount(limit, amounts)) * weight;
        count.settled = Math.max(0, count.settled + beyond * PARTS);
      } else if (inSamePeriod(window, periods, this.#at.periods)) {
        count.reserved -= amountIn(unit, amounts);
        if (window !== 'running') count.settled += amountIn(unit, used) * weight;
      }
    }
  }

  /**
   * Clears the settled consumption until `load` restores it from the ledger. Consumption that is settled in between is kept. Returns
   * a number that identifies the read of the ledger that begins now.
   */
  unload(now: Moment): number {
    this.advance(this.limits, now);
    this.loaded = false;
    for (const count of this.counts) if (count.kind.window !== 'minute') count.settled = 0;
    return ++this.#unloads;
  }

  /**
   * Adds the consumption read from the ledger for the periods of `asOf`. Ignores a read that began before the latest
   * `unload`: it left out requests that were running then, whose consumption has been cleared since.
   */
  load(history: readonly Count[], asOf: Moment, unloads: number): void {
    if (unloads !== this.#unloads) return;
    this.loaded = true;
    this.loadedAtMs = asOf.elapsedMs;
    for (const count of this.counts) {
      const { index, window } = count.kind;
      const settled = history[index]?.settled ?? 0;
      if (window === 'minute') {
        const capacity = count.limit?.bound ?? 0;
        if (!this.#hasBucket(count)) count.settled += Math.min(settled, capacity) * PARTS;
      } else if (inSamePeriod(window, asOf.periods, this.#at.periods)) {
        count.settled += settled;
      }
    }
    for (const { limit, kind } of this.counts) if (limit !== null) this.#buckets |= 1 << kind.index;
    this.lacksBucket = false;
  }

  #hasBucket({ kind }: Count): boolean {
    return (this.#buckets & (1 << kind.index)) !== 0;
  }

  /** Whether these counters can be removed: no request is running, and the buckets are full. */
  isIdle(elapsedMs: number): boolean {
    const passedMs = elapsedMs - this.#at.elapsedMs;
    return this.counts.every((count) => {
      const { limit, kind } = count;
      if (kind.window !== 'minute') return kind.window !== 'running' || count.reserved === 0;
      return limit === null || refillMs(limit, count) <= passedMs;
    });
  }

  #covers({ keyId, model }: ActiveReservation): boolean {
    return (this.keyId === null || this.keyId === keyId) && (this.model === null || this.model === model);
  }

  #apply(limits: ScopeLimits): void {
    this.limits = limits;
    for (const count of this.counts) {
      count.limit = limits.limits[count.kind.index] ?? null;
      if (count.limit === null) this.#buckets &= ~(1 << count.kind.index);
    }
    this.lacksBucket = this.counts.some(
      (count) => count.kind.window === 'minute' && count.limit !== null && !this.#hasBucket(count),
    );
  }

  #reserve({ amounts, periods }: ActiveReservation): void {
    for (const count of this.counts) {
      const { window, unit } = count.kind;
      if (window !== 'minute' && inSamePeriod(window, periods, this.#at.periods))
        count.reserved += amountIn(unit, amounts);
    }
  }
}
