import type { ActiveReservation } from './active-reservation.ts';
import { CALENDAR_WINDOWS, periodsOf, type Periods } from './calendar.ts';
import { Count, largestShare, type ScopeCounts } from './counts.ts';
import { sumHistory } from './history.ts';
import { KINDS } from './kinds.ts';
import type { HistoryEntry } from './limiter.ts';
import { PARTS, type ScopeLimits } from './scope-limits.ts';

/** The ID of a reservation in the store and the instance that owns it. */
export interface StoredId {
  id: string;
  instance: string;
}

/** The result of `ADMIT`. */
export interface AdmitResult {
  room: boolean;
  stored: StoredId;
  nowMs: number;
  periods: Periods;
  counts: readonly ScopeCounts[];
}

/** The result of `ADMIT` if the settled consumption of some scopes must first be read from the ledger. */
export interface UnknownScopes {
  nowMs: number;
  periods: Periods;
  /** One `STORE_COUNTS` ticket per scope; `''`: its consumption is known. */
  tickets: readonly string[];
  /** IDs of requests that the store counts itself. The consumption to be stored must not include them. */
  counted: readonly string[];
}

/** How long an unused scope is kept after its buckets are full, in milliseconds. */
const KEPT_MS = 600_000;

/** Returns the key of a scope. The hash tag keeps all scopes of an account in one slot of a cluster. */
export function keyOf(accountId: string, scope: string): string {
  return `sluice:{${accountId}}:${scope}`;
}

/** The limits of a scope, for scripts. */
interface PackedLimits {
  /** How long the scope is kept after its last use, in milliseconds. */
  lifetime: number;
  /** In the order of `KINDS`; false: no such limit. */
  limits: (PackedLimit | false)[];
}

/**
 * Requests, tokens or nano-dollars. For a bucket: its capacity, the parts that it refills per millisecond, and the most
 * that one request takes from it.
 */
type PackedLimit = [bound: number] | [bound: number, rate: number, most: number];

/** Returns the limits of a scope as an argument of `ADMIT` and `RELEASE`. */
export function packLimits(scope: ScopeLimits, reservedShare: number): string {
  const limits = scope.limits.map((limit): PackedLimit | false => {
    if (limit === null) return false;
    const { kind, bound, perMinute } = limit;
    return kind.window === 'minute' ? [bound, perMinute, largestShare(bound, reservedShare)] : [bound];
  });
  const packed: PackedLimits = { lifetime: lifetimeMs(scope), limits };
  return JSON.stringify(packed);
}

/** Parses the reply of `ADMIT`. */
export function parseAdmitReply(
  reply: unknown,
  scopes: readonly ScopeLimits[],
  stored: StoredId,
): AdmitResult | UnknownScopes {
  // The format that `ADMIT` returns.
  const [verdict, nowMs, numbers, ...rest] = reply as [number, number, number[], ...unknown[]];
  const periods = periodsOf(numbers);
  if (verdict === -1) {
    const [counted, ...tickets] = rest as [string[], ...string[]];
    return { nowMs, periods, tickets, counted };
  }
  // `ADMIT` returns the counts of each scope.
  const counts = scopes.map((limits, index) => countsOf(limits, rest[index] as number[]));
  return { room: verdict === 1, stored, nowMs, periods, counts };
}

function countsOf(limits: ScopeLimits, amounts: readonly number[]): ScopeCounts {
  const counts = KINDS.map((kind) => {
    const { index } = kind;
    return new Count(kind, limits.limits[index], amounts[2 * index], amounts[2 * index + 1]);
  });
  return { limits, counts };
}

/** The consumption of a scope, for `STORE_COUNTS`, in the order of `KINDS`. */
interface PackedCounts {
  /** `''`: its consumption is known. */
  ticket: string;
  lifetime: number;
  /** Parts, for buckets; false: a bucket without a limit. */
  settled: readonly (number | false)[];
  reserved: readonly number[];
}

/** Returns consumption from the ledger as an argument of `STORE_COUNTS`. */
export function packCounts(
  ticket: string,
  scope: ScopeLimits,
  keyId: string,
  entries: readonly HistoryEntry[],
): string {
  const history = sumHistory(entries, scope.holder === 'key' ? keyId : null, scope.model);
  const settled = history.map(({ kind, settled: used }) => {
    if (kind.window !== 'minute') return used;
    const limit = scope.limits[kind.index];
    return limit ? Math.min(used, limit.bound) * PARTS : false;
  });
  const packed: PackedCounts = {
    ticket,
    lifetime: lifetimeMs(scope),
    settled,
    reserved: history.map(({ reserved }) => reserved),
  };
  return JSON.stringify(packed);
}

/** The reservations of running requests in one scope. */
export interface ScopeReservations {
  /** Milliseconds; -1: the scope had no limits at their admission, so it need not be created. */
  lifetimeMs: number;
  /** Pairs of a reservation's ID and its amounts. */
  pairs: string[];
}

/** Returns the reservations of running requests, by the key of their scope. */
export function reservationsByKey(running: Iterable<ActiveReservation>): Map<string, ScopeReservations> {
  const byKey = new Map<string, ScopeReservations>();
  for (const active of running) {
    const { stored, amounts, periods } = active;
    if (stored === null) continue;
    for (const { id, admittedBy } of active.countedScopes()) {
      const key = keyOf(active.accountId, id);
      const reservations = byKey.get(key) ?? { lifetimeMs: -1, pairs: [] };
      byKey.set(key, reservations);
      if (admittedBy) reservations.lifetimeMs = Math.max(reservations.lifetimeMs, lifetimeMs(admittedBy));
      const numbers = CALENDAR_WINDOWS.map((window) => periods[window]);
      reservations.pairs.push(stored.id, [amounts.tokens, amounts.usd, ...numbers].join(' '));
    }
  }
  return byKey;
}

/** How long the store keeps the counters of a scope after their last use, in milliseconds. */
function lifetimeMs(limits: ScopeLimits): number {
  return KEPT_MS + limits.refillMs;
}
