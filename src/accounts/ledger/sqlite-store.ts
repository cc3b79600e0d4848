import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { DatabaseError, type DatabaseFault } from '../../database/errors.ts';
import { firstIdAt } from '../../database/partitions.ts';
import { openFiles } from '../../database/sqlite-files.ts';
import type { SqliteThreadData } from '../../database/sqlite-reader.ts';
import { PRUNE_ROWS } from './sqlite-tables.ts';
import { KEEP_DEAD_MS, RefusedWriteError, type BatchResult, type LedgerStore } from './store.ts';
import type { Batch } from './write.ts';

/** A call to the writer thread. */
export type WriterCall =
  | ['write', epoch: number, batch: Batch]
  | ['waive', settles: Batch['settles']]
  | ['register', leaseMs: number, pid: number]
  | ['heartbeat', epoch: number, leaseMs: number]
  | ['reap', epoch: number, exclusive: boolean]
  | ['retire', epoch: number]
  | ['prune', beforeId: string, deadBeforeMs: number]
  | ['close'];

/** The result of a `WriterCall`. */
export type WriterResult = { value: unknown } | { fault: DatabaseFault; message: string; refused: boolean };

interface PendingCall {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

/** Has the extension of this file: `.ts` in a clone, `.js` in the npm package. */
const WRITER_FILE = new URL(`./sqlite-writer${extname(import.meta.filename)}`, import.meta.url);

/** The ledger on SQLite. Runs every call in a worker thread, which is restarted if it dies. */
export class SqliteStore implements LedgerStore {
  readonly #data: SqliteThreadData;
  readonly #exclusive: boolean;
  readonly #threadFile: URL;
  #worker: Worker | null = null;
  #sequence = 0;
  readonly #pending = new Map<number, PendingCall>();

  /**
   * `path`: a database that this process has opened. `exclusive`: this process holds the service lock, which proves that
   * all other instances have ended. `thread`: the file that the thread runs.
   */
  constructor(path: string, { exclusive = false, thread = WRITER_FILE } = {}) {
    this.#data = { path, files: openFiles(path) };
    this.#exclusive = exclusive;
    this.#threadFile = thread;
  }

  async register(leaseMs: number): Promise<number> {
    return Number(await this.#call(['register', leaseMs, process.pid]));
  }

  async heartbeat(epoch: number, leaseMs: number): Promise<boolean> {
    return (await this.#call(['heartbeat', epoch, leaseMs])) === true;
  }

  write(epoch: number, batch: Batch): Promise<BatchResult | null> {
    // The result of `SqliteTables.write`.
    return this.#call(['write', epoch, batch]) as Promise<BatchResult | null>;
  }

  async waive(settles: Batch['settles']): Promise<void> {
    await this.#call(['waive', settles]);
  }

  async reap(epoch: number): Promise<number> {
    return Number(await this.#call(['reap', epoch, this.#exclusive]));
  }

  async retire(epoch: number): Promise<void> {
    await this.#call(['retire', epoch]);
  }

  async maintain(nowMs: number, keepFromMs: number | null): Promise<void> {
    const before = keepFromMs === null ? '' : firstIdAt(keepFromMs);
    // Deletes in small batches, so that other writes can run between them.
    while (Number(await this.#call(['prune', before, nowMs - KEEP_DEAD_MS])) === PRUNE_ROWS);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const worker = this.#worker;
    if (worker === null) return;
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    // The thread may die before it closes.
    await this.#call(['close']).catch(() => {});
    await ended;
  }

  #call(call: WriterCall): Promise<unknown> {
    this.#worker ??= this.#start();
    const sequence = ++this.#sequence;
    const result = new Promise((resolve, reject) => this.#pending.set(sequence, { resolve, reject }));
    this.#worker.postMessage({ sequence, call });
    return result;
  }

  #start(): Worker {
    const worker = new Worker(this.#threadFile, { name: 'ledger-writer', workerData: this.#data });
    let reason: unknown = null;
    worker.on('message', ({ sequence, result }: { sequence: number; result: WriterResult }) => {
      const pending = this.#pending.get(sequence);
      this.#pending.delete(sequence);
      if ('value' in result) pending?.resolve(result.value);
      else if (result.refused) pending?.reject(new RefusedWriteError(result.message));
      else pending?.reject(new DatabaseError(result.fault, result.message));
    });
    worker.on('error', (error) => (reason = error));
    worker.on('exit', () => {
      this.#worker = null;
      const died = new DatabaseError('failed', `The thread that writes ${this.#data.path} has stopped.`, {
        cause: reason,
      });
      for (const pending of this.#pending.values()) pending.reject(died);
      this.#pending.clear();
    });
    return worker;
  }
}
