import { Client, type QueryResult, type QueryResultRow } from 'pg';
import { asPostgresError } from '../../database/errors.ts';
import { nameOf, postgresOptions } from '../../database/postgres.ts';
import type { Secret } from '../../secret.ts';

/** A statement that the server prepares once a connection. */
export interface Statement {
  name: string;
  text: string;
}

export type Query = <R extends QueryResultRow>(
  statement: Statement | string,
  values?: unknown[],
) => Promise<QueryResult<R>>;

/** How much later than the server's own bound a statement that did not answer is given up, in milliseconds. */
const LATE_MS = 1000;

/**
 * Statements touch rows by their keys only, and are planned so even while the tables are small or their statistics
 * old: a plan that reads a whole month would be kept until the next statistics. The two costs say that a row found
 * costs more than looking for it. A commit is on disk when it is
 * answered, whatever the server's own default is.
 */
const SESSION = `
  set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; set jit = off;
  set random_page_cost = 0; set cpu_tuple_cost = 1;
  select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'`;

/**
 * One connection to PostgreSQL, opened on first use and again after it broke. Work on it runs one after another.
 * Statements that one piece of work sends without waiting for each other's results leave together and run in order.
 * Rejects with a `DatabaseError` where the server or the connection fails.
 */
export class PostgresConnection implements AsyncDisposable {
  readonly #url: Secret;
  readonly #name: string;
  readonly #statementMs: number;
  #client: Promise<Client> | null = null;
  /** Resolves when the latest work has ended. */
  #last: Promise<void> = Promise.resolve();

  constructor(url: Secret, statementMs: number) {
    this.#url = url;
    this.#name = nameOf(url);
    this.#statementMs = statementMs;
  }

  /**
   * Runs statements once earlier work has ended, so that none of them falls into another's transaction; `work` may
   * send several at once. A failure in it ends the connection.
   */
  use<T>(work: (query: Query) => Promise<T>): Promise<T> {
    const running = this.#last.then(() => this.#run(work));
    this.#last = running.then(ignore, ignore);
    return running;
  }

  async #run<T>(work: (query: Query) => Promise<T>): Promise<T> {
    const opening = (this.#client ??= this.#connect());
    try {
      const client = await opening;
      return await work((statement, values) => {
        const config = typeof statement === 'string' ? { text: statement } : statement;
        const answer = client.query({ ...config, values });
        // Of several that are under way only the first failure is told.
        answer.catch(() => {});
        return answer;
      });
    } catch (error) {
      if (this.#client === opening) this.#client = null;
      void opening.then(
        (client) => client.connection.stream.destroy(),
        () => {},
      );
      throw asPostgresError(error, this.#name);
    }
  }

  /** The same in one transaction. */
  async transaction<T>(work: (query: Query) => Promise<T>): Promise<T> {
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
      // A process that is suspended in a transaction would keep others waiting for its locks.
      idle_in_transaction_session_timeout: this.#statementMs,
      query_timeout: this.#statementMs + LATE_MS,
      pipeline: true,
    });
    // One that breaks while nothing runs is found out by the next statement; without a listener this would throw.
    client.on('error', () => {});
    await client.connect();
    await client.query(SESSION);
    return client;
  }
}

function ignore(): void {}
