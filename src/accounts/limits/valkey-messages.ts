import type { ScopeCounts } from './counts.ts';
import type { ActiveReservation } from './active-reservation.ts';
import { sumHistory } from './history.ts';
import type { ActualUsage, HistoryEntry } from './limits.ts';
import { nanoOfPico } from './money.ts';
import { largestShare, UNITS, type ScopeLimits } from './scope-limits.ts';

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
  day: number;
  month: number;
  counts: readonly ScopeCounts[];
}

/** The result of `ADMIT` if the settled usage of some scopes must first be read from the ledger. */
export interface UnknownScopes {
  nowMs: number;
  day: number;
  month: number;
  /** One `STORE_USAGE` ticket per scope; `''`: its usage is known. */
  tickets: readonly string[];
  /** IDs of requests that the store counts itself. The usage to be stored must not include them. */
  counted: readonly string[];
}

/** How long an unused scope is kept after its buckets are full, in milliseconds. */
const KEPT_MS = 600_000;

/** Returns the key of a scope. The hash tag keeps all scopes of an account in one slot of a cluster. */
export function keyOf(accountId: string, scope: string): string {
  return `sluice:{${accountId}}:${scope}`;
}

/** Returns the limits of a scope as an argument of `ADMIT`; -1: none. */
export function limitArguments(limits: ScopeLimits, reservedShare: number): string {
  const { requests, tokens, inFlight, dayTokens, monthTokens, monthNano } = limits;
  return [
    requests?.capacity ?? -1,
    requests?.perMinute ?? -1,
    tokens?.capacity ?? -1,
    tokens?.perMinute ?? -1,
    tokens === null ? -1 : largestShare(tokens, reservedShare),
    inFlight ?? -1,
    dayTokens ?? -1,
    monthTokens ?? -1,
    monthNano ?? -1,
    lifetimeMs(limits),
  ].join(' ');
}

/** Parses the reply of `ADMIT`. */
export function parseAdmitReply(reply: unknown, stored: StoredId): AdmitResult | UnknownScopes {
  // The format that `ADMIT` returns.
  const [verdict, nowMs, day, month, ...rest] = reply as [number, number, number, number, ...unknown[]];
  if (verdict === -1) {
    const [counted, ...tickets] = rest as [string[], ...string[]];
    return { nowMs, day, month, tickets, counted };
  }
  return { room: verdict === 1, stored, nowMs, day, month, counts: rest.map(readCounts) };
}

/** Returns the arguments of `STORE_USAGE`. */
export function storeUsageArguments(
  { day, month, keyId }: { day: number; month: number; keyId: string },
  scopes: readonly ScopeLimits[],
  tickets: readonly string[],
  entries: readonly HistoryEntry[],
): string[] {
  const args = [day, month].map(String);
  for (const [index, limits] of scopes.entries()) {
    const history = sumHistory(entries, limits.scope === 'key' ? keyId : null, limits.model);
    const numbers = [
      history.dayTokens,
      history.monthTokens,
      history.monthNano,
      history.openDayTokens,
      history.openMonthTokens,
      history.openMonthNano,
      Math.min(history.recentRequests, limits.requests?.capacity ?? 0) * UNITS,
      Math.min(history.recentTokens, limits.tokens?.capacity ?? 0) * UNITS,
      lifetimeMs(limits),
    ];
    args.push(tickets[index] ?? '', numbers.join(' '));
  }
  return args;
}

/** Returns the arguments of `SETTLE`. */
export function settleArguments(active: ActiveReservation, id: string, actual: ActualUsage): string[] {
  const { day, month } = active;
  const used = [day, month, actual.tokens, nanoOfPico(actual.pico), actual.request ? 1 : 0];
  const args = [id, used.join(' ')];
  for (const { admittedBy: limits } of active.countedScopes()) {
    const numbers =
      limits === undefined
        ? [-1, -1, 0, -1]
        : [
            limits.requests?.perMinute ?? -1,
            limits.tokens?.perMinute ?? -1,
            active.minuteTokensOf(limits),
            lifetimeMs(limits),
          ];
    args.push(numbers.join(' '));
  }
  return args;
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
    if (active.stored === null) continue;
    for (const { id, admittedBy } of active.countedScopes()) {
      const key = keyOf(active.accountId, id);
      const reservations = byKey.get(key) ?? { lifetimeMs: -1, pairs: [] };
      byKey.set(key, reservations);
      if (admittedBy) reservations.lifetimeMs = Math.max(reservations.lifetimeMs, lifetimeMs(admittedBy));
      reservations.pairs.push(
        active.stored.id,
        `${active.tokens} ${active.nano} ${active.day} ${active.month}`,
      );
    }
  }
  return byKey;
}

/** How long the store keeps the counters of a scope after their last use, in milliseconds. */
function lifetimeMs(limits: ScopeLimits): number {
  return KEPT_MS + limits.refillMs;
}

function readCounts(result: unknown): ScopeCounts {
  const [
    requestsSpent = 0,
    tokensSpent = 0,
    running = 0,
    daySettled = 0,
    dayReserved = 0,
    monthSettled = 0,
    monthReserved = 0,
    nanoSettled = 0,
    nanoReserved = 0,
  ] = result as number[]; // The format that `ADMIT` returns.
  return {
    requestsSpent,
    tokensSpent,
    running,
    daySettled,
    dayReserved,
    monthSettled,
    monthReserved,
    nanoSettled,
    nanoReserved,
  };
}
