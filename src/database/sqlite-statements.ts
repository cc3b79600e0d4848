import type { DatabaseSync, SQLInputValue, StatementSync } from 'node:sqlite';
import type { SqliteDatabase, SqliteStatement } from 'kysely';
import { convertingErrors } from './errors.ts';

/**
 * Maximum number of cached prepared statements. There is a maximum because each length of an `in (…)` list is a
 * different statement.
 */
const MAX_STATEMENTS = 100;

/**
 * Wraps a connection of `node:sqlite` for Kysely, with cached prepared statements and `DatabaseError`s.
 * `beforeWrite` is called before each statement that may write, and may throw.
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
      const statement = convertingErrors(path, () => wrap(connection.prepare(sql), path, before));
      if (statements.size >= MAX_STATEMENTS) statements.clear();
      statements.set(sql, statement);
      return statement;
    },
  };
}

function wrap(statement: StatementSync, path: string, before: () => void): SqliteStatement {
  const run = <T>(statementCall: () => T): T =>
    convertingErrors(path, () => {
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

/** Rejects values without a SQLite type, which would silently be stored as NULL or a number. */
function bindable(value: unknown): SQLInputValue {
  if (value === null || value instanceof Uint8Array) return value;
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint') return value;
  throw new TypeError(`SQLite has no type for a ${value instanceof Date ? 'Date' : typeof value}`);
}
