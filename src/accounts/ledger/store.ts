import type { Batch } from './write.ts';

/**
 * Storage of the ledger, without retries or batching. Each call is one transaction. If a call rejects, it had no effect
 * or its outcome is unknown.
 */
export interface LedgerStore extends AsyncDisposable {
  /** Registers an instance and returns its epoch. */
  register(leaseMs: number): Promise<number>;
  /** Renews the lease of an instance. Returns false if it is dead. */
  heartbeat(epoch: number, leaseMs: number): Promise<boolean>;
  /**
   * Writes a batch durably and updates the roll-ups. Returns null, with nothing written, if the instance is dead.
   * Rejects with a `RefusedWriteError` if the database will never accept a value of the batch.
   */
  write(epoch: number, batch: Batch): Promise<BatchResult | null>;
  /**
   * Cancels the charge of settlements that a failed `write` may have written, even if the instance is dead. Idempotent.
   * Rejects like `write`.
   */
  waive(ids: readonly string[]): Promise<void>;
  /** Marks instances with an expired lease as dead and interrupts their open rows. Returns the number of rows. */
  reap(epoch: number): Promise<number>;
  /** Marks this instance as dead and settles its open rows as interrupted. */
  retire(epoch: number): Promise<void>;
  /** Creates partitions, and deletes rows from before `keepFromMs`; null: none. */
  maintain(nowMs: number, keepFromMs: number | null): Promise<void>;
}

/** How long dead instances are kept, in milliseconds. */
export const KEEP_DEAD_MS = 30 * 86_400_000;

export interface BatchResult {
  /** IDs of settlements whose row was not open and not settled by this instance. */
  lost: readonly string[];
}

/** The database will never accept the write, for example because a value has the wrong type or the ID exists. */
export class RefusedWriteError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RefusedWriteError';
  }
}
