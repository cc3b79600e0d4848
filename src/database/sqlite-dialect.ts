import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite';
import {
  CompiledQuery,
  SqliteAdapter,
  SqliteDialect,
  SqliteDriver,
  type DatabaseConnection,
  type SqliteDatabase,
  type SqliteStatement,
} from 'kysely';
import { asDatabaseError } from './errors.ts';

/**
 * Kysely over one connection of `node:sqlite`, for which it has no driver of its own. Kysely hands out the
 * connection to one query or transaction at a time. Errors are `DatabaseError`s.
 */
export class NodeSqliteDialect extends SqliteDialect {
  readonly #database: SqliteDatabase;

  constructor(connection: DatabaseSync, path: string) {
    const database = face(connection, path);
    super({ database });
    this.#database = database;
  }

  override createDriver(): SqliteDriver {
    return new ImmediateDriver({ database: this.#database });
  }

  override createAdapter(): SqliteAdapter {
    return new TransactionalAdapter();
  }
}

/**
 * Takes the write lock when a transaction begins. A deferred one that turns from reading to writing after
 * somebody else has written fails at once, whatever the busy timeout says.
 */
class ImmediateDriver extends SqliteDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'));
  }
}

/** SQLite rolls DDL back like any other statement; Kysely's adapter is more careful than it needs to be. */
class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

/** Statements kept prepared. Lists of different lengths make different SQL, so there must be a bound. */
const MAX_STATEMENTS = 100;

function face(connection: DatabaseSync, path: string): SqliteDatabase {
  const statements = new Map<string, SqliteStatement>();
  return {
    close: () => connection.close(),
    prepare: (sql) => {
      const known = statements.get(sql);
      if (known !== undefined) return known;
      const statement = translated(path, () => wrap(connection.prepare(sql), path));
      if (statements.size >= MAX_STATEMENTS) statements.clear();
      statements.set(sql, statement);
      return statement;
    },
  };
}

function wrap(statement: StatementSync, path: string): SqliteStatement {
  return {
    reader: statement.columns().length > 0,
    all: (values) => translated(path, () => statement.all(...values.map(bindable))),
    run: (values) => translated(path, () => statement.run(...values.map(bindable))),
    iterate: (values) => translated(path, () => statement.iterate(...values.map(bindable))),
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
