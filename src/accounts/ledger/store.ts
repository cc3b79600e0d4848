import type { Batch } from './write.ts';

/**
 * Where rows are kept, without any waiting, retrying or gathering: SQLite and PostgreSQL. Each call is one
 * transaction and rejects with an error when nothing is known of its end, or when it had no effect.
 */
export interface LedgerStore extends AsyncDisposable {
  /** Makes a live copy of the service; its epoch. */
  register(leaseMs: number): Promise<number>;
  /** Moves the end of a copy's lease; false when it is not live any more. */
  beat(epoch: number, leaseMs: number): Promise<boolean>;
  /**
   * Writes all of a batch durably and feeds the roll-ups; null, with nothing written, when the copy is not live any
   * more. Rejects with a `RefusedWriteError` when the database will never take what the batch holds.
   */
  write(epoch: number, batch: Batch): Promise<BatchAnswer | null>;
  /**
   * Cancels the charge for these settlements where they were written after all: their requests were told that they
   * were not. Idempotent. Ignores the lease. Rejects as `write` does.
   */
  waive(settles: Batch['settles']): Promise<void>;
  /**
   * Ends the copies whose lease has ended, this one excepted, and settles their open rows as interrupted; the
   * number of those rows.
   */
  reap(epoch: number): Promise<number>;
  /** Ends this copy and settles the rows that it leaves open as interrupted. */
  retire(epoch: number): Promise<void>;
  /** What is to be done daily: partitions made ahead, rows that are kept no longer than `keepDays` dropped. */
  upkeep(nowMs: number, keepDays: number | undefined): Promise<void>;
}

/** How long the instances of copies that have ended are kept, in milliseconds. */
export const DEAD_KEPT_MS = 30 * 86_400_000;

export interface BatchAnswer {
  /** Ids of settlements whose row was not open any more and had not been settled by this copy. */
  lost: readonly string[];
}

/** The database answers and will not take a write whatever the time: a value of the wrong kind, an id that is there. */
export class RefusedWriteError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RefusedWriteError';
  }
}
