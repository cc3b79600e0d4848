import {
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type Kysely,
  type QueryResult,
  type SelectModifierNode,
} from 'kysely';
import type { SqliteClient, SqliteTransaction } from './sqlite-client.ts';
import type { SqliteQuery, SqliteResult } from './sqlite-connection.ts';

interface SqliteDialectOptions {
  /** How long statements wait for the transaction of another user or process, in milliseconds. Default: 5 s. */
  patienceMs?: number;
  /** Whether reads fail too if a file of the database was replaced. Default: false. */
  checksReads?: boolean;
}

/** A Kysely dialect over a `SqliteClient`, which the caller disposes of. */
export class NodeSqliteDialect implements Dialect {
  readonly #client: SqliteClient;
  readonly #options: SqliteDialectOptions;

  constructor(client: SqliteClient, options: SqliteDialectOptions = {}) {
    this.#client = client;
    this.#options = options;
  }

  createDriver(): Driver {
    return {
      init: async () => {},
      acquireConnection: async () => new ClientConnection(this.#client, this.#options),
      // Kysely passes the connections of `acquireConnection`.
      beginTransaction: (connection: ClientConnection) => connection.begin(),
      commitTransaction: (connection: ClientConnection) => connection.finish('commit'),
      rollbackTransaction: (connection: ClientConnection) => connection.finish('rollback'),
      releaseConnection: async (connection: ClientConnection) => connection.release(),
      destroy: async () => {},
    };
  }

  createQueryCompiler(): SqliteQueryCompiler {
    return new ClientQueryCompiler();
  }

  createAdapter(): SqliteAdapter {
    return new ClientAdapter();
  }

  createIntrospector(kysely: Kysely<unknown>): SqliteIntrospector {
    return new SqliteIntrospector(kysely);
  }
}

/** The use of a client for one query or one transaction. */
class ClientConnection implements DatabaseConnection {
  readonly #client: SqliteClient;
  readonly #options: SqliteDialectOptions;
  #transaction: SqliteTransaction | null = null;

  constructor(client: SqliteClient, options: SqliteDialectOptions) {
    this.#client = client;
    this.#options = options;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const { rows, changes } = await this.#query(sql, parameters);
    return {
      // The author of the query declares the type of its rows.
      rows: rows as R[],
      ...(changes !== undefined && { numAffectedRows: BigInt(changes) }),
    };
  }

  streamQuery(): never {
    throw new Error('Streaming is not supported; read the results in pages.');
  }

  async begin(): Promise<void> {
    this.#transaction = await this.#client.begin(this.#options.patienceMs);
  }

  async #query(sql: string, parameters: readonly unknown[]): Promise<SqliteResult> {
    const checksFiles = this.#options.checksReads === true || !/^\s*(select|rollback)\b/i.test(sql);
    const query: SqliteQuery = { sql, parameters, inTransaction: this.#transaction !== null, checksFiles };
    return this.#transaction === null
      ? await this.#client.run(query, this.#options.patienceMs)
      : await this.#transaction.run(query);
  }

  async finish(statement: 'commit' | 'rollback'): Promise<void> {
    await this.#query(statement, []);
  }

  release(): void {
    this.#transaction?.end();
    this.#transaction = null;
  }
}

/** Leaves out the locks of rows, such as `for update`: SQLite runs one transaction that writes at a time. */
class ClientQueryCompiler extends SqliteQueryCompiler {
  protected override visitSelectModifier(node: SelectModifierNode): void {
    if (node.modifier === 'Distinct') super.visitSelectModifier(node);
  }
}

/**
 * Kysely's adapter assumes that SQLite cannot roll back DDL. `SqliteClient` runs one transaction at a time, so Kysely
 * need not.
 */
class ClientAdapter extends SqliteAdapter {
  override get supportsTransactionalDdl(): boolean {
    return true;
  }

  override get supportsMultipleConnections(): boolean {
    return true;
  }
}
