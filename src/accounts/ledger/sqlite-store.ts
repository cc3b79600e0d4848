import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { DatabaseError, type DatabaseFault } from '../../database/errors.ts';
import { firstIdAt } from '../../database/partitions.ts';
import { openFiles } from '../../database/sqlite-files.ts';
import type { SqliteThreadData } from '../../database/sqlite-reader.ts';
import { DAY_MS } from './days.ts';
import { PRUNED_AT_ONCE } from './sqlite-tables.ts';
import { DEAD_KEPT_MS, RefusedWriteError, type BatchAnswer, type LedgerStore } from './store.ts';
import type { Batch } from './write.ts';

/** What the writer's thread is asked. */
export type SqliteCall =
  | ['write', epoch: number, batch: Batch]
  | ['waive', settles: Batch['settles']]
  | ['register', leaseMs: number, pid: number]
  | ['beat', epoch: number, leaseMs: number]
  | ['reap', epoch: number, processStartedAt: number]
  | ['retire', epoch: number]
  | ['prune', beforeId: string, deadBeforeMs: number]
  | ['close'];

/** What it answers. */
export type SqliteAnswer = { value: unknown } | { fault: DatabaseFault; message: string; refused: boolean };

interface Waiting {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

/** Its name ends as this file's does: `.ts` in a clone, `.js` in a package. */
const WRITER = new URL(`./sqlite-writer${extname(import.meta.filename)}`, import.meta.url);

/** The ledger on SQLite: every call goes to a thread, which is started anew when it has died. */
export class SqliteStore implements LedgerStore {
  readonly #data: SqliteThreadData;
  readonly #thread: URL;
  #worker: Worker | null = null;
  #sequence = 0;
  readonly #waiting = new Map<number, Waiting>();

  /** `path`: a database that this process has open. `thread`: the file that the thread runs. */
  constructor(path: string, thread = WRITER) {
    this.#data = { path, files: openFiles(path) };
    this.#thread = thread;
  }

  async register(leaseMs: number): Promise<number> {
    return Number(await this.#ask(['register', leaseMs, process.pid]));
  }

  async beat(epoch: number, leaseMs: number): Promise<boolean> {
    return (await this.#ask(['beat', epoch, leaseMs])) === true;
  }

  write(epoch: number, batch: Batch): Promise<BatchAnswer | null> {
    // What `SqliteTables.write` returned.
    return this.#ask(['write', epoch, batch]) as Promise<BatchAnswer | null>;
  }

  async waive(settles: Batch['settles']): Promise<void> {
    await this.#ask(['waive', settles]);
  }

  async reap(epoch: number): Promise<number> {
    return Number(await this.#ask(['reap', epoch, Math.floor(performance.timeOrigin)]));
  }

  async retire(epoch: number): Promise<void> {
    await this.#ask(['retire', epoch]);
  }

  async upkeep(nowMs: number, keepDays: number | undefined): Promise<void> {
    const before = keepDays === undefined ? '' : firstIdAt(nowMs - keepDays * DAY_MS);
    // Piece by piece: the batches that come meanwhile go between.
    while (Number(await this.#ask(['prune', before, nowMs - DEAD_KEPT_MS])) === PRUNED_AT_ONCE);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const worker = this.#worker;
    if (worker === null) return;
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    // One that dies on the way has ended as well.
    await this.#ask(['close']).catch(() => {});
    await ended;
  }

  #ask(call: SqliteCall): Promise<unknown> {
    this.#worker ??= this.#start();
    const sequence = ++this.#sequence;
    const answer = new Promise((resolve, reject) => this.#waiting.set(sequence, { resolve, reject }));
    this.#worker.postMessage({ sequence, call });
    return answer;
  }

  #start(): Worker {
    const worker = new Worker(this.#thread, { workerData: this.#data });
    let reason: unknown = null;
    worker.on('message', ({ sequence, answer }: { sequence: number; answer: SqliteAnswer }) => {
      const waiting = this.#waiting.get(sequence);
      this.#waiting.delete(sequence);
      if ('value' in answer) waiting?.resolve(answer.value);
      else if (answer.refused) waiting?.reject(new RefusedWriteError(answer.message));
      else waiting?.reject(new DatabaseError(answer.fault, answer.message));
    });
    worker.on('error', (error) => (reason = error));
    worker.on('exit', () => {
      this.#worker = null;
      const died = new DatabaseError('failed', `The thread that writes ${this.#data.path} has died.`, {
        cause: reason,
      });
      for (const waiting of this.#waiting.values()) waiting.reject(died);
      this.#waiting.clear();
    });
    return worker;
  }
}
