import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import {
  CompiledQuery,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type Kysely,
  type QueryResult,
} from 'kysely';
import { DatabaseError, type DatabaseFault } from './errors.ts';
import { openFiles, type OpenFile } from './sqlite-files.ts';

/** The data that the thread needs to open the database. Queries fail if one of the files was replaced. */
export interface SqliteThreadData {
  path: string;
  files: readonly OpenFile[];
}

/** A query to the reader thread. */
export interface ReaderQuery {
  sql: string;
  parameters: readonly unknown[];
}

/** The result of a `ReaderQuery`. `error`: an error that is not from the database. */
export type ReaderResult =
  | { rows: unknown[] }
  | { fault: DatabaseFault; message: string }
  | { error: unknown };

/** Has the extension of this file: `.ts` in a clone, `.js` in the npm package. */
const READER_FILE = new URL(`./sqlite-reader-thread${extname(import.meta.filename)}`, import.meta.url);

/**
 * A Kysely dialect over a read-only connection of `node:sqlite` in a thread, so that queries do not block the
 * event loop. The thread starts with the first query, does not keep the process alive, and is restarted if it
 * dies. Errors are `DatabaseError`s.
 */
export class SqliteReaderDialect implements Dialect {
  readonly #data: SqliteThreadData;
  readonly #threadFile: URL;

  /** `thread`: the file that the thread runs. */
  constructor(path: string, thread = READER_FILE) {
    this.#data = { path, files: openFiles(path) };
    this.#threadFile = thread;
  }

  createDriver(): Driver {
    return new ReaderDriver(new ReaderConnection(this.#data, this.#threadFile));
  }

  createQueryCompiler(): SqliteQueryCompiler {
    return new SqliteQueryCompiler();
  }

  /** Tells Kysely that there is a single connection, which it uses for one query or transaction at a time. */
  createAdapter(): SqliteAdapter {
    return new SqliteAdapter();
  }

  createIntrospector(kysely: Kysely<unknown>): SqliteIntrospector {
    return new SqliteIntrospector(kysely);
  }
}

class ReaderDriver implements Driver {
  readonly #connection: ReaderConnection;

  constructor(connection: ReaderConnection) {
    this.#connection = connection;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return this.#connection;
  }

  async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin'));
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('commit'));
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('rollback'));
  }

  async releaseConnection(): Promise<void> {}

  async destroy(): Promise<void> {
    await this.#connection.end();
  }
}

interface PendingQuery {
  resolve: (rows: unknown[]) => void;
  reject: (error: unknown) => void;
}

class ReaderConnection implements DatabaseConnection {
  readonly #data: SqliteThreadData;
  readonly #threadFile: URL;
  #worker: Worker | null = null;
  /** The current query: Kysely runs one at a time. */
  #pending: PendingQuery | null = null;
  #ending = false;

  constructor(data: SqliteThreadData, thread: URL) {
    this.#data = data;
    this.#threadFile = thread;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const worker = (this.#worker ??= this.#start());
    const query: ReaderQuery = { sql, parameters };
    worker.postMessage(query);
    const { promise, resolve, reject } = Promise.withResolvers<unknown[]>();
    this.#pending = { resolve, reject };
    worker.ref();
    try {
      // The author of the query declares the type of its rows.
      return { rows: (await promise) as R[] };
    } finally {
      // While `end` waits for the thread, the thread must keep the process alive.
      if (!this.#ending) worker.unref();
    }
  }

  streamQuery(): never {
    throw new Error('Streaming is not supported; read the results in pages.');
  }

  /** Waits for a running query and ends the thread. */
  async end(): Promise<void> {
    const worker = this.#worker;
    if (worker === null) return;
    this.#ending = true;
    worker.ref();
    const ended = new Promise((resolve) => worker.once('exit', resolve));
    worker.postMessage(null);
    await ended;
  }

  #start(): Worker {
    const worker = new Worker(this.#threadFile, { name: 'report-reader', workerData: this.#data });
    let reason: unknown = null;
    worker.on('message', (result: ReaderResult) => {
      const pending = this.#pending;
      this.#pending = null;
      if ('rows' in result) pending?.resolve(result.rows);
      else if ('error' in result) pending?.reject(result.error);
      else pending?.reject(new DatabaseError(result.fault, result.message));
    });
    worker.on('error', (error) => (reason = error));
    worker.on('exit', () => {
      this.#worker = null;
      const message = `The thread that reads ${this.#data.path} has stopped.`;
      this.#pending?.reject(new DatabaseError('failed', message, { cause: reason }));
      this.#pending = null;
    });
    return worker;
  }
}
