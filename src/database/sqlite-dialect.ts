import type { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import {
  CompiledQuery,
  SqliteAdapter,
  SqliteDialect,
  SqliteDriver,
  type DatabaseConnection,
  type SqliteDatabase,
  type SqliteDialectConfig,
} from 'kysely';
import { DatabaseError } from './errors.ts';
import { withStatements } from './sqlite-statements.ts';

/**
 * A Kysely dialect over one connection of `node:sqlite`, for which Kysely has no driver. Kysely runs one query or
 * transaction at a time on it. Errors are `DatabaseError`s.
 */
export class NodeSqliteDialect extends SqliteDialect {
  readonly #database: SqliteDatabase;
  readonly #attempts: number;

  /**
   * `beforeWrite` is called before each statement that may write, and may throw. A statement is tried up to `attempts`
   * times while another connection has the write lock, with pauses that do not block the event loop.
   */
  constructor(connection: DatabaseSync, path: string, beforeWrite: () => void, attempts = 1) {
    const database = withStatements(connection, path, beforeWrite);
    super({ database });
    this.#database = database;
    this.#attempts = attempts;
  }

  override createDriver(): SqliteDriver {
    return this.#attempts === 1
      ? new ImmediateDriver({ database: this.#database })
      : new PatientDriver({ database: this.#database }, this.#attempts);
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

/** Pause between the attempts of a statement, in milliseconds. */
const PAUSE_MS = 5;

/** Tries statements again while the database is busy. */
class PatientDriver extends ImmediateDriver {
  readonly #attempts: number;

  constructor(config: SqliteDialectConfig, attempts: number) {
    super(config);
    this.#attempts = attempts;
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    const connection = await super.acquireConnection();
    return {
      executeQuery: (query) => this.#execute(() => connection.executeQuery(query)),
      streamQuery: (query, chunkSize) => connection.streamQuery(query, chunkSize),
    };
  }

  async #execute<T>(run: () => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await run();
      } catch (error) {
        const isBusy = error instanceof DatabaseError && error.fault === 'busy';
        if (!isBusy || attempt === this.#attempts) throw error;
        await pause(PAUSE_MS);
      }
    }
  }
}

/** SQLite can roll back DDL; Kysely's adapter assumes that it cannot. */
class TransactionalAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}
