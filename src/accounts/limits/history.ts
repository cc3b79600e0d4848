import { ServiceError } from '../../errors.ts';
import type { HistoryEntry, UsageHistory } from './limits.ts';
import { nanoOfPico } from './money.ts';

/** The usage of one scope, from the ledger. */
export interface ScopeHistory {
  dayTokens: number;
  monthTokens: number;
  monthNano: number;
  openDayTokens: number;
  openMonthTokens: number;
  openMonthNano: number;
  recentRequests: number;
  recentTokens: number;
}

/**
 * Usage older than this is not subtracted from a bucket when its counters are read from the ledger, in milliseconds: the
 * requests of this time are read one by one, and a large burst can take months to refill.
 */
const MAX_RECENT_MS = 3_600_000;

/** Reads the usage of an account, and of at most `MAX_RECENT_MS` for its buckets. Rejects with a `ServiceError` `storage_unavailable`. */
export async function readHistory(
  history: UsageHistory,
  accountId: string,
  atMs: number,
  recentMs: number,
  exceptIds: readonly string[],
): Promise<HistoryEntry[]> {
  try {
    return await history.read(accountId, atMs, Math.min(recentMs, MAX_RECENT_MS), exceptIds);
  } catch (cause) {
    const message = 'The usage of this account cannot be read now. Try again later.';
    throw new ServiceError('storage_unavailable', message, { cause, retryAfterMs: 1000 });
  }
}

/** Sums the entries of a key and a model; null: all. */
export function sumHistory(
  entries: readonly HistoryEntry[],
  keyId: string | null,
  model: string | null,
): ScopeHistory {
  const matching = entries.filter(
    (entry) => (keyId === null || entry.keyId === keyId) && (model === null || entry.model === model),
  );
  const sum = (of: (entry: HistoryEntry) => number): number =>
    matching.reduce((total, entry) => total + of(entry), 0);
  const nano = (of: (entry: HistoryEntry) => bigint): number =>
    nanoOfPico(matching.reduce((total, entry) => total + of(entry), 0n));
  return {
    dayTokens: sum((entry) => entry.dayTokens),
    monthTokens: sum((entry) => entry.monthTokens),
    monthNano: nano((entry) => entry.monthPico),
    openDayTokens: sum((entry) => entry.openDayTokens),
    openMonthTokens: sum((entry) => entry.openMonthTokens),
    openMonthNano: nano((entry) => entry.openMonthPico),
    recentRequests: sum((entry) => entry.recentRequests),
    recentTokens: sum((entry) => entry.recentTokens),
  };
}
