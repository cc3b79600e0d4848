import type { Counts } from './counts.ts';
import type { Held } from './held.ts';
import { sumHistory } from './history.ts';
import type { Actual, HistoryEntry } from './limits.ts';
import { nanoOfPico } from './money.ts';
import { largestShare, UNITS, type ScopeLimits } from './scope-limits.ts';

/** How a reservation is called in the store, and the copy that holds it there. */
export interface StoredName {
  id: string;
  copy: string;
}

/** What the store says of the scopes of a demand. */
export interface Answer {
  room: boolean;
  stored: StoredName;
  nowMs: number;
  day: number;
  month: number;
  counts: readonly Counts[];
}

/** The store does not know what was settled in some of the scopes. */
export interface Unknown {
  nowMs: number;
  day: number;
  month: number;
  /** With which to tell it of each scope; `''`: it is known. */
  tickets: readonly string[];
}

/** How long a scope is kept that nobody uses, beside the time in which its buckets fill, in milliseconds. */
const KEPT_MS = 600_000;

/** All scopes of an account have its id as their hash tag: a cluster keeps them in one slot. */
export function keyOf(accountId: string, scope: string): string {
  return `sluice:{${accountId}}:${scope}`;
}

/** The limits of a scope as `ADMIT` reads them; -1: none. */
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

/** What `ADMIT` answered. */
export function readAnswer(reply: unknown, stored: StoredName): Answer | Unknown {
  // The script's own form.
  const [verdict, nowMs, day, month, ...rest] = reply as [number, number, number, number, ...unknown[]];
  if (verdict === -1) return { nowMs, day, month, tickets: rest as string[] };
  return { room: verdict === 1, stored, nowMs, day, month, counts: rest.map(readCounts) };
}

/** What the ledger knows, for `LEARN`. */
export function learnArguments(
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

/** What a request used, for `SETTLE`. */
export function settleArguments(held: Held, id: string, actual: Actual): string[] {
  const { day, month } = held;
  const used = [day, month, actual.tokens, nanoOfPico(actual.pico), actual.request ? 1 : 0];
  const args = [id, used.join(' ')];
  for (const { admittedBy: limits } of held.counted()) {
    const numbers =
      limits === undefined
        ? [-1, -1, 0, -1]
        : [
            limits.requests?.perMinute ?? -1,
            limits.tokens?.perMinute ?? -1,
            held.minuteTokensOf(limits),
            lifetimeMs(limits),
          ];
    args.push(numbers.join(' '));
  }
  return args;
}

/** What running requests hold of one scope. */
export interface Claim {
  /** Milliseconds; -1: they were admitted when it had no limits, and it matters only if it has some now. */
  lifetimeMs: number;
  /** Pairs of a name and what it holds. */
  pairs: string[];
}

/** What running requests hold, for `CLAIM`, by key. */
export function claimsOf(running: Iterable<Held>): Map<string, Claim> {
  const claims = new Map<string, Claim>();
  for (const held of running) {
    if (held.stored === null) continue;
    for (const { id, admittedBy } of held.counted()) {
      const key = keyOf(held.accountId, id);
      const claim = claims.get(key) ?? { lifetimeMs: -1, pairs: [] };
      claims.set(key, claim);
      if (admittedBy) claim.lifetimeMs = Math.max(claim.lifetimeMs, lifetimeMs(admittedBy));
      claim.pairs.push(held.stored.id, `${held.tokens} ${held.nano} ${held.day} ${held.month}`);
    }
  }
  return claims;
}

/** How long the store keeps the counters of a scope after they were last used, in milliseconds. */
function lifetimeMs(limits: ScopeLimits): number {
  return KEPT_MS + limits.refillMs;
}

/** One scope of the answer of `ADMIT`. */
function readCounts(answer: unknown): Counts {
  const [
    requestsSpent = 0,
    tokensSpent = 0,
    running = 0,
    daySettled = 0,
    dayHeld = 0,
    monthSettled = 0,
    monthHeld = 0,
    nanoSettled = 0,
    nanoHeld = 0,
  ] = answer as number[]; // The script's own form.
  return {
    requestsSpent,
    tokensSpent,
    running,
    daySettled,
    dayHeld,
    monthSettled,
    monthHeld,
    nanoSettled,
    nanoHeld,
  };
}
