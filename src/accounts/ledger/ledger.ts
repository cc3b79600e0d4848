import { ServiceError } from '../../core/errors.ts';
import type { RowOf } from '../../database/ledger-columns.ts';
import type { Usage } from '../../core/generation.ts';

/** The same values, where those that can be null may also be omitted. */
type Given<Row> = { [P in keyof Row as null extends Row[P] ? never : P]: Row[P] } & {
  [P in keyof Row as null extends Row[P] ? P : never]?: Row[P];
};

/** The values of a row when its request is admitted. */
export type OpenedRow = Given<RowOf<'open'>>;

/** The progress of a running request, read for each checkpoint. */
export type RunningCounts = Readonly<Given<Omit<RowOf<'running'>, keyof Usage>>> & {
  readonly usage: Readonly<Usage>;
};

/** How a request ended. Its cost follows from `billed`; tokens are recorded either way. */
export type Settlement = RunningCounts &
  Given<Omit<RowOf<'settle'>, 'state' | 'costPico'>> & { endedAt: number };

/** `lost`: the row was not open, or belongs to another instance. */
export type SettleResult = 'settled' | 'lost';

/**
 * One row per admitted request, written durably and counted exactly once. `open` and `settle` resolve when the
 * row is on disk. Writes of one turn of the event loop share a commit, and nothing blocks the event loop. `settle` may
 * be called before `open` resolves; both then share a commit if possible.
 */
export interface Ledger extends AsyncDisposable {
  /**
   * Opens the row and reads checkpoints from `counts` until it is settled. The row of a non-streaming request may wait
   * up to 100 ms for its settlement. Rejects with a `ServiceError` `storage_unavailable`; the row then does not exist
   * or will be settled without cost.
   */
  open(row: OpenedRow, counts: RunningCounts): Promise<void>;
  /** Writes a checkpoint of the row in the next batch. Never throws. */
  checkpoint(id: string): void;
  /**
   * Settles the row and adds it to the roll-ups in one transaction. Rejects with a `ServiceError` `storage_unavailable`
   * if it was not written within `ledger.settleWaitMs`; an attempt in progress at that time may still succeed. After
   * the rejection, the row is settled without a charge as soon as it can be written.
   */
  settle(id: string, settlement: Settlement): Promise<SettleResult>;
  /** Records that the response of a settled request did not reach the client. Never throws. */
  undelivered(id: string): void;
  /** Whether the ledger can be written, for admission and `/readyz`; `reason` is for operators. */
  readonly health: LedgerHealth;
  /** The writes so far. */
  readonly writes: Readonly<LedgerWrites>;
}

/** The writes of a ledger since it was opened. Each is one transaction, with the rows of many requests. */
export interface LedgerWrites {
  /** Including those that failed. */
  count: number;
  failures: number;
  /** Rows that were opened, settled or updated. */
  rows: number;
  totalMs: number;
  /** When the current write began, on the clock of `performance.now`; null: there is none. */
  currentSinceMs: number | null;
}

export type LedgerHealth =
  | { writable: true }
  /** `sinceMs`: duration in milliseconds. `waiting`: settlements that are not written yet. */
  | { writable: false; sinceMs: number; waiting: number; reason: string };

/** Returns the error of requests whose row cannot be written. */
export function ledgerUnavailable(cause?: unknown): ServiceError {
  return new ServiceError('storage_unavailable', 'The request ledger is not writable. Try again later.', {
    cause,
  });
}
