import type { BatchResult, LedgerStore } from '../../../src/accounts/ledger/store.ts';
import { RefusedWriteError } from '../../../src/accounts/ledger/store.ts';
import type { Batch } from '../../../src/accounts/ledger/write.ts';

/**
 * Outcome of a call. `fails`: nothing is written. `loses`: written, and the response is lost. `fences`: another
 * instance ends this one first.
 */
export type Outcome = 'works' | 'fails' | 'loses' | 'fences';

/** A store that fails by a script: one outcome per write, waiver and heartbeat, then success. */
export class FaultyStore implements LedgerStore {
  readonly #store: LedgerStore;
  readonly #fence: () => Promise<void>;
  #script: Outcome[] = [];
  /** Every batch that was passed to it, in order. */
  readonly batches: Batch[] = [];
  /** IDs of rows that it refuses. */
  readonly refused = new Set<string>();

  constructor(store: LedgerStore, fence: () => Promise<void> = async () => {}) {
    this.#store = store;
    this.#fence = fence;
  }

  /** Uses these outcomes from the next call on. */
  play(script: readonly Outcome[]): void {
    this.#script = [...script];
  }

  heartbeat(epoch: number, leaseMs: number): Promise<boolean> {
    return this.#call(() => this.#store.heartbeat(epoch, leaseMs));
  }

  write(epoch: number, batch: Batch): Promise<BatchResult | null> {
    this.batches.push(batch);
    const { opens, checkpoints, settles, undelivered } = batch;
    const ids = [...[...opens, ...checkpoints, ...settles].map(([id]) => id), ...undelivered];
    return this.#call(() => (this.#refuse(ids), this.#store.write(epoch, batch)));
  }

  waive(ids: readonly string[]): Promise<void> {
    return this.#call(() => (this.#refuse(ids), this.#store.waive(ids)));
  }

  register(leaseMs: number): Promise<number> {
    return this.#store.register(leaseMs);
  }

  reap(epoch: number): Promise<number> {
    return this.#store.reap(epoch);
  }

  retire(epoch: number): Promise<void> {
    return this.#store.retire(epoch);
  }

  maintain(nowMs: number, keepFromMs: number | null): Promise<void> {
    return this.#store.maintain(nowMs, keepFromMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#store[Symbol.asyncDispose]();
  }

  async #call<T>(call: () => Promise<T>): Promise<T> {
    const outcome = this.#script.shift() ?? 'works';
    if (outcome === 'fails') throw new Error('the script fails this call');
    if (outcome === 'fences') await this.#fence();
    const result = await call();
    if (outcome === 'loses') throw new Error('the script loses this response');
    return result;
  }

  #refuse(ids: readonly string[]): void {
    const id = ids.find((one) => this.refused.has(one));
    if (id !== undefined) throw new RefusedWriteError(`the script refuses ${id}`);
  }
}
