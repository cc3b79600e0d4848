import type { DatabaseSync } from 'node:sqlite';
import {
  CompiledQuery,
  SqliteAdapter,
  SqliteDialect,
  SqliteDriver,
  type DatabaseConnection,
  type SqliteDatabase,
} from 'kysely';
import { withStatements } from './sqlite-statements.ts';

/**
 * A Kysely dialect over one connection of `node:sqlite`, for which Kysely has no driver. Kysely runs one query or
 * transaction at a time on it. Errors are `DatabaseError`s.
 */
export class NodeSqliteDialect extends SqliteDialect {
  readonly #database: SqliteDatabase;

  /** `beforeWrite` is called before each statement that may write, and may throw. */
  constructor(connection: DatabaseSync, path: string, beforeWrite: () => void) {
    const database = withStatements(connection, path, beforeWrite);
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
 * Takes the write lock when a transaction begins. A deferred transaction fails at once, regardless of the busy
 * timeout, if it starts to write after another process has written.
 */
class ImmediateDriver extends SqliteDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'));
  }
}

/** SQLite can roll back DDL; Kysely's adapter assumes that it cannot. */
class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}
