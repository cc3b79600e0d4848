import type { LedgerWrites } from './ledger.ts';
import type { BatchResult, LedgerStore } from './store.ts';
import type { Batch } from './write.ts';

/** A store that counts the writes of another one. */
export class MeasuredStore implements LedgerStore {
  readonly #store: LedgerStore;
  readonly writes: LedgerWrites = { count: 0, failures: 0, rows: 0, totalMs: 0, currentSinceMs: null };

  /** Takes ownership of `store`. */
  constructor(store: LedgerStore) {
    this.#store = store;
  }

  async write(epoch: number, batch: Batch): Promise<BatchResult | null> {
    const { writes } = this;
    const startedAtMs = performance.now();
    writes.currentSinceMs = startedAtMs;
    try {
      const result = await this.#store.write(epoch, batch);
      writes.rows += rowsOf(batch);
      return result;
    } catch (error) {
      writes.failures++;
      throw error;
    } finally {
      writes.currentSinceMs = null;
      writes.count++;
      writes.totalMs += performance.now() - startedAtMs;
    }
  }

  register(leaseMs: number): Promise<number> {
    return this.#store.register(leaseMs);
  }

  heartbeat(epoch: number, leaseMs: number): Promise<boolean> {
    return this.#store.heartbeat(epoch, leaseMs);
  }

  waive(settles: Batch['settles']): Promise<void> {
    return this.#store.waive(settles);
  }

  reap(epoch: number): Promise<number> {
    return this.#store.reap(epoch);
  }

  retire(epoch: number): Promise<void> {
    return this.#store.retire(epoch);
  }

  maintain(nowMs: number, keepDays: number | undefined): Promise<void> {
    return this.#store.maintain(nowMs, keepDays);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#store[Symbol.asyncDispose]();
  }
}

function rowsOf({ opens, ended, checkpoints, settles, undelivered }: Batch): number {
  return opens.length + ended.length + checkpoints.length + settles.length + undelivered.length;
}
