import { periodAround } from './calendar.ts';
import type { LimitKind, Unit } from './kinds.ts';
import type { Consumption, Demand } from './limiter.ts';
import { nanoOfPico } from './money.ts';
import { PARTS, type Limit, type ScopeLimits } from './scope-limits.ts';

/** What counts against a limit of one kind. */
export class Count {
  readonly kind: LimitKind;
  /** Null: no such limit. */
  limit: Limit | null;
  /**
   * What ended requests have used. For buckets, the used parts, with those of running requests: `PARTS` per request or
   * token, more than the capacity when the bucket is in debt.
   */
  settled: number;
  /** The most that running requests may use. The limit applies to the sum. */
  reserved: number;

  constructor(kind: LimitKind, limit: Limit | null = null, settled = 0, reserved = 0) {
    this.kind = kind;
    this.limit = limit;
    this.settled = settled;
    this.reserved = reserved;
  }
}

/** The consumption of one scope. */
export interface ScopeCounts {
  readonly limits: ScopeLimits;
  /** In the order of `KINDS`, whether or not there is a limit. */
  readonly counts: readonly Count[];
}

/** Amounts of each unit: requests, tokens and nano-dollars. */
export type Amounts = Readonly<Record<Unit, number>>;

/** The most that a request can use, and how it counts. */
export interface RequestAmounts extends Amounts {
  /** See `Demand.shortest`. */
  readonly shortest: Demand['shortest'];
  /** Largest share of a bucket that one request reserves. */
  readonly reservedShare: number;
  /**
   * Factor by which a request counts: 1, or the number of instances while they cannot share counters, so that each
   * instance uses at most its share of the limit.
   */
  readonly weight: number;
}

/** Returns the most that a request can use. */
export function amountsOf(
  { worstTokens, worstPico, shortest }: Demand,
  reservedShare: number,
  weight: number,
): RequestAmounts {
  return {
    requests: 1,
    tokens: worstTokens,
    usd: nanoOfPico(worstPico),
    shortest,
    reservedShare,
    weight,
  };
}

export function usedAmounts({ request, tokens, pico }: Consumption): Amounts {
  return { requests: request ? 1 : 0, tokens, usd: nanoOfPico(pico) };
}

/** Returns the amount of a unit. Faster than a computed property. */
export function amountIn(unit: Unit, { requests, tokens, usd }: Amounts): number {
  return unit === 'requests' ? requests : unit === 'tokens' ? tokens : usd;
}

/** Estimated wait for a running request to end, in milliseconds. */
const RUNNING_WAIT_MS = 1000;

/** When a request over a limit would be admitted if no others arrived, in milliseconds; null: never. */
export interface Wait {
  readonly until: 'refilled' | 'request ends' | 'period ends' | 'never';
  readonly ms: number | null;
}

/**
 * Returns how long a request must wait for a limit; null: it is within the limit. At a weight of 1, a request is within a
 * limit of any kind if the sum of what is settled, reserved and requested is at most the bound, or if it requests nothing.
 * `ADMIT` in `valkey-scripts.ts` checks the same.
 */
export function waitFor(
  limit: Limit,
  { settled, reserved }: Count,
  amounts: RequestAmounts,
  nowMs: number,
): Wait | null {
  const { kind, bound } = limit;
  const { weight } = amounts;
  if (amountIn(kind.unit, amounts) === 0) return null;
  switch (kind.window) {
    case 'minute': {
      const needed = Math.min(bucketAmount(limit, amounts) * weight, bound) * PARTS;
      const lacking = settled + needed - bound * PARTS;
      return lacking <= 0 ? null : { until: 'refilled', ms: Math.ceil(lacking / limit.perMinute) };
    }
    case 'running':
      // Each instance may always run one request, even if the limit is below the number of instances.
      if (reserved === 0 || (reserved + amountIn(kind.unit, amounts)) * weight <= bound) return null;
      return { until: 'request ends', ms: RUNNING_WAIT_MS };
    default: {
      const amount = amountIn(kind.unit, amounts);
      if (settled + (reserved + amount) * weight <= bound) return null;
      if (amount > bound) return { until: 'never', ms: null };
      // The request would fit without the running requests, at a weight of 1. The running requests usually end, and the
      // instances usually share counters again, before the period ends.
      if (settled + amount <= bound) return { until: 'request ends', ms: RUNNING_WAIT_MS };
      return { until: 'period ends', ms: periodAround(kind.window, nowMs).toMs - nowMs };
    }
  }
}

/** Returns what a request takes from a bucket. Tokens that it uses beyond that become a debt of the bucket. */
export function bucketAmount({ kind, bound }: Limit, amounts: RequestAmounts): number {
  return Math.min(amountIn(kind.unit, amounts), largestShare(bound, amounts.reservedShare));
}

/** Returns the most that one request takes from a bucket. */
export function largestShare(capacity: number, reservedShare: number): number {
  return Math.max(1, Math.floor(capacity * reservedShare));
}

/** Returns what is left of a limit, at least 0; whole requests or tokens for a bucket. */
export function leftOf({ kind, bound }: Limit, { settled, reserved }: Count): number {
  const left = kind.window === 'minute' ? Math.floor(bound - settled / PARTS) : bound - settled - reserved;
  return Math.max(0, left);
}

/** Returns the milliseconds until the bucket is full. */
export function refillMs({ perMinute }: Limit, { settled }: Count): number {
  return Math.ceil(settled / perMinute);
}
