import type { OPENED, RowOf } from '../../database/ledger-columns.ts';
import type { Usage, UsageSource } from '../../generation.ts';

/** What is known of a request when it is admitted. */
export type OpenedRow = RowOf<typeof OPENED>;

/** What the ledger reads of a running generation whenever it writes a checkpoint. Times are Unix milliseconds. */
export interface RunningCounts {
  readonly usage: Readonly<Usage>;
  readonly usageSource: UsageSource | null;
  readonly replica: string | null;
  readonly slotAt: number | null;
  readonly firstTokenAt: number | null;
}

/** How a request ended. Times are Unix milliseconds. */
export interface Settlement extends RunningCounts {
  endedAt: number;
  /** Replicas it was given to, refusals included. */
  attempts: number;
  finishReason: string | null;
  /** Code of the error it ended with, or `hung_up`; null: it came to its end. */
  errorCode: string | null;
  httpStatus: number;
  /** Whether the caller was still there; null: not known. */
  delivered: boolean | null;
  /** Whether the caller pays: false for our faults, whose tokens are kept and cost nothing. */
  billed: boolean;
}

/** What became of a settlement: `lost` when the row was not open any more, or not ours to settle. */
export type Settled = 'settled' | 'lost';

/**
 * One row for each admitted request, written durably and counted exactly once. `open` and `settle` resolve when the
 * row is on disk; writes of one turn of the event loop and of those that wait are one commit. Nothing here blocks
 * the event loop.
 */
export interface Ledger extends AsyncDisposable {
  /**
   * Opens the row and keeps `counts` to read checkpoints from until it is settled. Rejects with a `ServiceError`
   * `storage_unavailable`; the row was not opened then, or will be settled as of no cost.
   */
  open(row: OpenedRow, counts: RunningCounts): Promise<void>;
  /** Writes a checkpoint of the row soon, whatever the clock says. Never throws; nobody waits for it. */
  checkpoint(id: string): void;
  /**
   * Settles the row and adds it to the roll-ups, in one transaction. Rejects with a `ServiceError`
   * `storage_unavailable` when it could not be written within `ledger.settleWaitMs` and the attempt under way then;
   * it is tried on until it is, as of no cost.
   */
  settle(id: string, settlement: Settlement): Promise<Settled>;
  /** Notes that the last bytes of a settled answer did not reach the caller. Never throws; nobody waits for it. */
  undelivered(id: string): void;
  /** Whether writes go through, for admission and `/readyz`; `reason` is for operators. */
  readonly health: LedgerHealth;
}

export type LedgerHealth =
  | { writable: true }
  /** `sinceMs`: for how long, in milliseconds. `waiting`: settlements not written yet. */
  | { writable: false; sinceMs: number; waiting: number; reason: string };
