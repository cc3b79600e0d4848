import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import { convertingErrors, DatabaseError } from './errors.ts';
import { assertInPlace, type OpenFile } from './sqlite-files.ts';

/** How a connection opens the database. */
export interface SqliteConnectionOptions {
  path: string;
  /** Calls fail if one of these was deleted, moved or replaced. */
  files: readonly OpenFile[];
  readOnly: boolean;
}

/** What a connection is asked to do. */
export type SqliteCall = SqliteQuery | SqliteBatch;

export type SqliteResultOf<C extends SqliteCall> = C extends SqliteBatch ? Missed | null : SqliteResult;

export interface SqliteQuery {
  sql: string;
  parameters: readonly unknown[];
  /** Whether it is part of a transaction, and fails if SQLite has rolled that back. */
  inTransaction: boolean;
  /** Whether it fails if a file of the database was replaced: see `assertInPlace`. */
  checksFiles: boolean;
}

export interface SqliteResult {
  rows: unknown[];
  /** Number of inserted, updated or deleted rows, if the statement returns no rows. */
  changes?: number;
}

/** Statements in one durable transaction. The result is null if it was committed. */
export interface SqliteBatch {
  statements: readonly BatchStatement[];
}

/** A statement that is run once with each of the `rows`. */
export interface BatchStatement {
  sql: string;
  /** Values of each run that precede those of its row. Default: none. */
  first?: readonly SQLInputValue[];
  rows: readonly (readonly SQLInputValue[])[];
  /** Whether the batch is committed only if each run changes or returns a row. Default: false. */
  required?: boolean;
}

/** The required statement because of which a batch was rolled back, and which of its rows changed or returned nothing. */
export interface Missed {
  sql: string;
  rows: number[];
}

/** Pages in the write-ahead log after which a commit runs a checkpoint. */
const CHECKPOINT_PAGES = 4000;

/**
 * Maximum number of cached prepared statements. There is a maximum because each length of an `in (…)` list is a
 * different statement.
 */
const MAX_STATEMENTS = 100;

interface Statement {
  prepared: StatementSync;
  returnsRows: boolean;
}

/**
 * One connection of `node:sqlite`, opened by the first call. It blocks its thread, except that it does not wait for locks:
 * calls then fail with `busy`. Failures are `DatabaseError`s, or a `TypeError` for a value without a SQLite type.
 */
export class SqliteConnection {
  readonly #options: SqliteConnectionOptions;
  readonly #statements = new Map<string, Statement>();
  #database: DatabaseSync | null = null;

  constructor(options: SqliteConnectionOptions) {
    this.#options = options;
  }

  run<C extends SqliteCall>(call: C): SqliteResultOf<C> {
    const result = convertingErrors(this.#options.path, () =>
      'sql' in call ? this.#query(call) : this.#batch(call),
    );
    // The compiler does not relate the branches to the type of the call.
    return result as SqliteResultOf<C>;
  }

  close(): void {
    this.#database?.close();
    this.#database = null;
    this.#statements.clear();
  }

  #query({ sql, parameters, inTransaction, checksFiles }: SqliteQuery): SqliteResult {
    // Opening would recreate a deleted file.
    if (checksFiles || this.#database === null) assertInPlace(this.#options.files);
    const database = (this.#database ??= open(this.#options));
    if (inTransaction && !database.isTransaction) {
      if (sql === 'rollback') return { rows: [] };
      throw new DatabaseError('failed', `The transaction on ${this.#options.path} was rolled back.`);
    }
    const { prepared, returnsRows } = this.#prepare(database, sql);
    const values = parameters.map(bindable);
    if (returnsRows) return { rows: prepared.all(...values) };
    return { rows: [], changes: Number(prepared.run(...values).changes) };
  }

  #batch({ statements }: SqliteBatch): Missed | null {
    assertInPlace(this.#options.files);
    const database = (this.#database ??= open(this.#options));
    this.#prepare(database, 'begin immediate').prepared.run();
    try {
      for (const { sql, first = [], rows, required } of statements) {
        const statement = this.#prepare(database, sql);
        const missed: number[] = [];
        for (const [index, row] of rows.entries())
          if (!affects(statement, [...first, ...row])) missed.push(index);
        if (required !== true || missed.length === 0) continue;
        database.exec('rollback');
        return { sql, rows: missed };
      }
      this.#prepare(database, 'commit').prepared.run();
      return null;
    } catch (error) {
      // SQLite itself rolls back when the disk is full.
      if (database.isTransaction) database.exec('rollback');
      throw error;
    }
  }

  #prepare(database: DatabaseSync, sql: string): Statement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    const prepared = database.prepare(sql);
    const statement = { prepared, returnsRows: prepared.columns().length > 0 };
    if (this.#statements.size >= MAX_STATEMENTS) this.#statements.clear();
    this.#statements.set(sql, statement);
    return statement;
  }
}

function open({ path, readOnly }: SqliteConnectionOptions): DatabaseSync {
  const database = new DatabaseSync(path, { readOnly, timeout: 0, enableForeignKeyConstraints: true });
  try {
    if (!readOnly) {
      database.exec(
        `pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = ${CHECKPOINT_PAGES}`,
      );
    }
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function affects({ prepared, returnsRows }: Statement, values: readonly SQLInputValue[]): boolean {
  return returnsRows ? prepared.get(...values) !== undefined : prepared.run(...values).changes !== 0;
}

/** Rejects values without a SQLite type, which would silently be stored as NULL or a number. */
function bindable(value: unknown): SQLInputValue {
  if (value === null || value instanceof Uint8Array) return value;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint') return value;
  throw new TypeError(`SQLite has no type for a ${value instanceof Date ? 'Date' : typeof value}`);
}
