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

/** What a thread needs to open the database. It refuses to work once one of the files is no longer in its place. */
export interface SqliteThreadData {
  path: string;
  files: readonly OpenFile[];
}

/** What the reader's thread is asked. */
export interface ReaderQuery {
  sql: string;
  parameters: readonly unknown[];
}

/** What it answers. An `error` is not the database's. */
export type ReaderAnswer =
  | { rows: unknown[] }
  | { fault: DatabaseFault; message: string }
  | { error: unknown };

/** Its name ends as this file's does: `.ts` in a clone, `.js` in a package. */
const READER = new URL(`./sqlite-reader-thread${extname(import.meta.filename)}`, import.meta.url);

/**
 * Kysely over a connection of `node:sqlite` that only reads and lives in a thread: however long a query takes, the
 * event loop goes on. The thread starts with the first query, keeps no process alive that has nothing else to do,
 * and is started anew when it has died. Errors are `DatabaseError`s.
 */
export class SqliteReaderDialect implements Dialect {
  readonly #data: SqliteThreadData;
  readonly #thread: URL;

  /** `thread`: the file that the thread runs. */
  constructor(path: string, thread = READER) {
    this.#data = { path, files: openFiles(path) };
    this.#thread = thread;
  }

  createDriver(): Driver {
    return new ReaderDriver(new ReaderConnection(this.#data, this.#thread));
  }

  createQueryCompiler(): SqliteQueryCompiler {
    return new SqliteQueryCompiler();
  }

  /** It tells Kysely that there is one connection, which Kysely then lends to one query or transaction at a time. */
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

interface Waiting {
  resolve: (rows: unknown[]) => void;
  reject: (error: unknown) => void;
}

class ReaderConnection implements DatabaseConnection {
  readonly #data: SqliteThreadData;
  readonly #thread: URL;
  #worker: Worker | null = null;
  /** Whose answer is next: Kysely asks one query at a time. */
  #waiting: Waiting | null = null;
  #ending = false;

  constructor(data: SqliteThreadData, thread: URL) {
    this.#data = data;
    this.#thread = thread;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const worker = (this.#worker ??= this.#start());
    const query: ReaderQuery = { sql, parameters };
    worker.postMessage(query);
    const { promise, resolve, reject } = Promise.withResolvers<unknown[]>();
    this.#waiting = { resolve, reject };
    worker.ref();
    try {
      // Whoever wrote the query says what its rows are.
      return { rows: (await promise) as R[] };
    } finally {
      // Its end is waited for.
      if (!this.#ending) worker.unref();
    }
  }

  streamQuery(): never {
    throw new Error('Streaming is not supported; read the results in pages.');
  }

  /** Lets a query that runs come to its end. */
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
    const worker = new Worker(this.#thread, { workerData: this.#data });
    let reason: unknown = null;
    worker.on('message', (answer: ReaderAnswer) => {
      const waiting = this.#waiting;
      this.#waiting = null;
      if ('rows' in answer) waiting?.resolve(answer.rows);
      else if ('error' in answer) waiting?.reject(answer.error);
      else waiting?.reject(new DatabaseError(answer.fault, answer.message));
    });
    worker.on('error', (error) => (reason = error));
    worker.on('exit', () => {
      this.#worker = null;
      const died = `The thread that reads ${this.#data.path} has stopped.`;
      this.#waiting?.reject(new DatabaseError('failed', died, { cause: reason }));
      this.#waiting = null;
    });
    return worker;
  }
}
