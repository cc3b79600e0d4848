import { extname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { Deadline } from '../support/deadline.ts';
import { DatabaseError, type DatabaseFault } from './errors.ts';
import {
  SqliteConnection,
  type SqliteCall,
  type SqliteConnectionOptions,
  type SqliteQuery,
  type SqliteResultOf,
} from './sqlite-connection.ts';

/** How long a call waits for the transaction of another user or process, in milliseconds. */
const PATIENCE_MS = 5000;

/** Pause between the attempts of a call, in milliseconds. */
const PAUSE_MS = 5;

/**
 * Shares a connection to a SQLite database between all users of this process. Calls run in the order in which they
 * arrive, except that they wait while another user has a transaction. If another process has the lock, a call is tried
 * again after pauses, in which other calls run. Failures are `DatabaseError`s.
 */
export class SqliteClient implements AsyncDisposable {
  readonly #connection: Connection;
  readonly #path: string;
  readonly #begin: string;
  /** Resolves when the current transaction ends; null: there is none. */
  #transaction: Promise<void> | null = null;

  private constructor(connection: Connection, { path, readOnly }: SqliteConnectionOptions) {
    this.#connection = connection;
    this.#path = path;
    // A deferred transaction would fail if it started to write after another process has written.
    this.#begin = readOnly ? 'begin' : 'begin immediate';
  }

  /** Uses a connection that blocks the event loop: for commands, because starting a thread takes longer than a query. */
  static inProcess(options: SqliteConnectionOptions): SqliteClient {
    const connection = new SqliteConnection(options);
    return new SqliteClient(
      {
        run: async (call) => connection.run(call),
        [Symbol.asyncDispose]: async () => connection.close(),
      },
      options,
    );
  }

  /**
   * Uses a connection in a thread, which starts with the first call, does not keep the process alive while it is idle,
   * and is restarted if it dies. `file`: the file that it runs.
   */
  static inThread(options: SqliteConnectionOptions, file = THREAD_FILE): SqliteClient {
    return new SqliteClient(new ThreadConnection(options, file), options);
  }

  /** Runs a query or a batch. A batch that rejects has written nothing, unless the thread died. */
  run<C extends SqliteCall>(call: C, patienceMs = PATIENCE_MS): Promise<SqliteResultOf<C>> {
    return this.#patiently(patienceMs, () => this.#connection.run(call));
  }

  /** Begins a transaction, whose user must call `end` after it has committed or rolled back. */
  begin(patienceMs = PATIENCE_MS): Promise<SqliteTransaction> {
    return this.#patiently(patienceMs, async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#transaction = promise;
      const end = () => {
        this.#transaction = null;
        resolve();
      };
      try {
        const begin = { sql: this.#begin, parameters: [], inTransaction: false, checksFiles: true };
        await this.#connection.run(begin);
        return { run: (query) => this.#connection.run(query), end };
      } catch (error) {
        end();
        throw error;
      }
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#connection[Symbol.asyncDispose]();
  }

  /** Calls `attempt` when no user has a transaction, and again while another process has the lock. */
  async #patiently<T>(patienceMs: number, attempt: () => Promise<T>): Promise<T> {
    const deadline = performance.now() + patienceMs;
    let busy: DatabaseError | null = null;
    for (;;) {
      while (this.#transaction !== null) {
        if (await hasEnded(this.#transaction, deadline)) continue;
        // The other user may be waiting for the same lock, so the reason of the last attempt is more precise.
        throw (
          busy ?? new DatabaseError('busy', `The database ${this.#path} is locked by another transaction.`)
        );
      }
      try {
        return await attempt();
      } catch (error) {
        const isBusy = error instanceof DatabaseError && error.fault === 'busy';
        if (!isBusy || performance.now() >= deadline) throw error;
        busy = error;
      }
      await pause(PAUSE_MS);
    }
  }
}

/** Waits for the end of a transaction. The result is false if it has not ended at the deadline. */
async function hasEnded(transaction: Promise<void>, deadline: number): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  using _limit = new Deadline(deadline - performance.now(), () => late.resolve(false));
  return await Promise.race([transaction.then(() => true), late.promise]);
}

export interface SqliteTransaction {
  /** Runs a query of the transaction, whose `inTransaction` must be true. */
  run(query: SqliteQuery): Promise<SqliteResultOf<SqliteQuery>>;
  end(): void;
}

/** Runs calls one after another, in the order of the calls of `run`. */
interface Connection extends AsyncDisposable {
  run<C extends SqliteCall>(call: C): Promise<SqliteResultOf<C>>;
}

/** The answer of a thread to a call. `error`: an error that is not from the database. */
export type SqliteAnswer =
  | { value: SqliteResultOf<SqliteCall> }
  | { fault: DatabaseFault; message: string; code: number | null }
  | { error: unknown };

/** Has the extension of this file: `.ts` in a clone, `.js` in the npm package. */
const THREAD_FILE = new URL(`./sqlite-thread${extname(import.meta.filename)}`, import.meta.url);

interface PendingCall {
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
}

class ThreadConnection implements Connection {
  readonly #options: SqliteConnectionOptions;
  readonly #file: URL;
  #worker: Worker | null = null;
  /** The calls that are not answered, oldest first. */
  readonly #pending: PendingCall[] = [];
  #closed = false;

  constructor(options: SqliteConnectionOptions, file: URL) {
    this.#options = options;
    this.#file = file;
  }

  run<C extends SqliteCall>(call: C): Promise<SqliteResultOf<C>> {
    if (this.#closed) throw new DatabaseError('failed', `The database ${this.#options.path} is closed.`);
    this.#worker ??= this.#start();
    this.#worker.postMessage(call);
    const { promise, resolve, reject } = Promise.withResolvers<SqliteResultOf<C>>();
    if (this.#pending.push({ resolve, reject }) === 1) this.#worker.ref();
    return promise;
  }

  /** Waits for calls that are running and ends the thread. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const worker = this.#worker;
    if (worker === null) return;
    worker.ref();
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    worker.postMessage(null);
    await ended;
  }

  #start(): Worker {
    const worker = new Worker(this.#file, {
      name: this.#options.readOnly ? 'sqlite-reader' : 'sqlite-writer',
      workerData: this.#options,
    });
    let reason: unknown = null;
    worker.on('message', (answer: SqliteAnswer) => {
      const pending = this.#pending.shift();
      // While the thread is closed, it must keep the process alive.
      if (this.#pending.length === 0 && !this.#closed) worker.unref();
      // The answer has the type of the call.
      if ('value' in answer) pending?.resolve(answer.value as never);
      else if ('error' in answer) pending?.reject(answer.error);
      else
        pending?.reject(new DatabaseError(answer.fault, answer.message, { cause: { errcode: answer.code } }));
    });
    worker.on('error', (error) => (reason = error));
    worker.on('exit', () => {
      this.#worker = null;
      const uses = this.#options.readOnly ? 'reads' : 'writes';
      const message = `The thread that ${uses} ${this.#options.path} has stopped.`;
      for (const { reject } of this.#pending.splice(0))
        reject(new DatabaseError('failed', message, { cause: reason }));
    });
    return worker;
  }
}
