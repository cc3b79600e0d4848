import { Client, type QueryResult, type QueryResultRow } from 'pg';
import { asPostgresError } from '../../database/errors.ts';
import { LATE_MS, nameOf, postgresOptions } from '../../database/postgres.ts';
import { within } from '../../support/deadline.ts';
import type { Secret } from '../../support/secret.ts';

/** A statement that the server prepares once per connection. */
export interface Statement {
  name: string;
  text: string;
}

export type QueryFunction = <R extends QueryResultRow>(
  statement: Statement | string,
  values?: unknown[],
) => Promise<QueryResult<R>>;

/**
 * Forces index plans: all statements access rows by key, and a prepared statement would keep a sequential scan that was
 * planned while its table was small. The two costs make the planner choose the index that reads the fewest rows.
 * Enables synchronous commit if the server's default is off, so that a committed row is on disk.
 */
const SESSION = `
  set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off;
  set random_page_cost = 0; set cpu_tuple_cost = 1;
  select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'`;

/**
 * One connection to PostgreSQL, opened on first use and again after it broke. Calls of `use` run one at a
 * time. Statements that one call sends without waiting for results are pipelined and run in order. Rejects with a
 * `DatabaseError`.
 */
export class PostgresConnection implements AsyncDisposable {
  readonly #url: Secret;
  readonly #name: string;
  readonly #statementMs: number;
  #client: Promise<Client> | null = null;
  /** Resolves when all work so far has ended. */
  #last: Promise<void> = Promise.resolve();

  constructor(url: Secret, statementMs: number) {
    this.#url = url;
    this.#name = nameOf(url);
    this.#statementMs = statementMs;
  }

  /**
   * Runs `work` after all earlier work, so that its statements are not part of another transaction. It may send several
   * statements at once. A failure closes the connection. So does no response within the statement timeout and `LATE_MS`,
   * which include the time to connect.
   */
  use<T>(work: (query: QueryFunction) => Promise<T>): Promise<T> {
    const running = this.#last.then(() => this.#run(work));
    this.#last = running.then(ignore, ignore);
    return running;
  }

  async #run<T>(work: (query: QueryFunction) => Promise<T>): Promise<T> {
    const opening = (this.#client ??= this.#connect());
    const run = async () => {
      const client = await opening;
      return await work((statement, values) => {
        const config = typeof statement === 'string' ? { text: statement } : statement;
        const result = client.query({ ...config, values });
        // Only the first failure of pipelined statements is reported.
        result.catch(() => {});
        return result;
      });
    };
    try {
      return await within(this.#statementMs + LATE_MS, run());
    } catch (error) {
      if (this.#client === opening) this.#client = null;
      void opening.then(
        (client) => client.connection.stream.destroy(),
        () => {},
      );
      throw asPostgresError(error, this.#name);
    }
  }

  /** Runs statements in one transaction. */
  async transaction<T>(work: (query: QueryFunction) => Promise<T>): Promise<T> {
    return await this.use(async (query) => {
      void query('begin');
      const result = await work(query);
      await query('commit');
      return result;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#last;
    const client = await this.#client?.catch(() => null);
    await client?.end().catch(() => {});
  }

  async #connect(): Promise<Client> {
    const client = new Client({
      ...postgresOptions(this.#url),
      statement_timeout: this.#statementMs,
      // A suspended process would otherwise keep its locks.
      idle_in_transaction_session_timeout: this.#statementMs,
      // Closes a connection that is abandoned while it opens.
      query_timeout: this.#statementMs + LATE_MS,
      pipeline: true,
    });
    // Without a listener, a connection that breaks while idle would throw; the next statement reports it.
    client.on('error', () => {});
    await client.connect();
    await client.query(SESSION);
    return client;
  }
}

function ignore(): void {}
