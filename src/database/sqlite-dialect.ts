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
 * Kysely over one connection of `node:sqlite`, for which it has no driver of its own. Kysely hands out the
 * connection to one query or transaction at a time. Errors are `DatabaseError`s.
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
