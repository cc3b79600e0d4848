import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type { SqliteDatabase, SqliteStatement } from 'kysely';
import { asDatabaseError } from './errors.ts';

/** Statements kept prepared. Lists of different lengths make different SQL, so there must be a bound. */
const MAX_STATEMENTS = 100;

/**
 * A connection of `node:sqlite` as Kysely wants it, with statements that stay prepared and errors that are
 * `DatabaseError`s. `beforeWrite` is called before each statement that may write, and may throw.
 */
export function withStatements(
  connection: DatabaseSync,
  path: string,
  beforeWrite: () => void = () => {},
): SqliteDatabase {
  const statements = new Map<string, SqliteStatement>();
  return {
    close: () => connection.close(),
    prepare: (sql) => {
      const known = statements.get(sql);
      if (known !== undefined) return known;
      const before = /^\s*(select|rollback)\b/i.test(sql) ? () => {} : beforeWrite;
      const statement = translated(path, () => wrap(connection.prepare(sql), path, before));
      if (statements.size >= MAX_STATEMENTS) statements.clear();
      statements.set(sql, statement);
      return statement;
    },
  };
}

function wrap(statement: StatementSync, path: string, before: () => void): SqliteStatement {
  const run = <T>(statementCall: () => T): T =>
    translated(path, () => {
      before();
      return statementCall();
    });
  return {
    reader: statement.columns().length > 0,
    all: (values) => run(() => statement.all(...values.map(bindable))),
    run: (values) => run(() => statement.run(...values.map(bindable))),
    iterate: (values) => run(() => statement.iterate(...values.map(bindable))),
  };
}

/** Refuses what SQLite has no type for: it would be stored as NULL or as a number without a word. */
function bindable(value: unknown): SQLInputValue {
  if (value === null || value instanceof Uint8Array) return value;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint') return value;
  throw new TypeError(`SQLite has no type for a ${value instanceof Date ? 'Date' : typeof value}`);
}

function translated<T>(path: string, run: () => T): T {
  try {
    return run();
  } catch (error) {
    throw asDatabaseError(error, path);
  }
}
