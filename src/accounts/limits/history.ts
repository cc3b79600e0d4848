import { ServiceError } from '../../core/errors.ts';
import { Count } from './counts.ts';
import { KINDS, type LimitKind } from './kinds.ts';
import type { HistoryEntry, LimitHistory } from './limiter.ts';
import { nanoOfPico } from './money.ts';

/**
 * Usage older than this is not subtracted from a bucket when its counters are read from the ledger, in milliseconds: the
 * requests of this time are read one by one, and a large burst can take months to refill.
 */
const MAX_RECENT_MS = 3_600_000;

/**
 * Reads the consumption of an account (the key null) and of its keys, and of at most `MAX_RECENT_MS` for their buckets. Rejects
 * with a `ServiceError` `storage_unavailable`.
 */
export async function readHistory(
  history: LimitHistory,
  accountId: string,
  keys: readonly (string | null)[],
  atMs: number,
  recentMs: number,
  exceptIds: readonly string[],
): Promise<HistoryEntry[]> {
  try {
    const keyIds = [...new Set(keys)].filter((key) => key !== null);
    const holders = { accountId, keyIds, otherKeys: keys.includes(null) };
    return await history.read(holders, atMs, Math.min(recentMs, MAX_RECENT_MS), exceptIds);
  } catch (cause) {
    const message = 'The usage of this account cannot be read now. Try again later.';
    throw new ServiceError('storage_unavailable', message, { cause, retryAfterMs: 1000 });
  }
}

/** Sums the entries of a key and a model; null: all. Buckets get requests or tokens, not parts. */
export function sumHistory(
  entries: readonly HistoryEntry[],
  keyId: string | null,
  model: string | null,
): Count[] {
  const matching = entries.filter(
    (entry) => (keyId === null || entry.keyId === keyId) && (model === null || entry.model === model),
  );
  return KINDS.map(
    (kind) => new Count(kind, null, sumOf(matching, kind, 'settled'), sumOf(matching, kind, 'reserved')),
  );
}

function sumOf(
  entries: readonly HistoryEntry[],
  { unit, window }: LimitKind,
  state: HistoryEntry['state'],
): number {
  const counted = entries.filter((entry) => entry.state === state && entry.windows.includes(window));
  return unit === 'usd'
    ? nanoOfPico(counted.reduce((sum, { pico }) => sum + pico, 0n))
    : counted.reduce((sum, entry) => sum + entry[unit], 0);
}
