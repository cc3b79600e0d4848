import { sql, type RawBuilder } from 'kysely';
import { steadyNow } from '../accounts/clock.ts';
import type { Database } from '../database/database.ts';
import { loggable } from '../database/errors.ts';
import { SETUP_TOKEN, type Schema } from '../database/schema.ts';
import type { Log } from '../support/log.ts';
import { IDLE_MS } from './token.ts';

const INTERVAL_MS = 3_600_000;
/** How long expired invitations are listed, so that owners can repeat them. */
const KEEP_INVITATIONS_MS = 30 * 86_400_000;
/** Rows per statement, because a statement blocks the event loop on SQLite. */
const BATCH = 500;

/**
 * Deletes expired sessions, links and counters of attempts at the start and every hour, because they contain addresses of
 * users.
 */
export class ExpiredSignIns implements AsyncDisposable {
  readonly #database: Pick<Database, 'background'>;
  readonly #log: Log;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();
  #stopped = false;

  /** `now` returns Unix milliseconds. */
  constructor(database: Pick<Database, 'background'>, log: Log, now: () => number = steadyNow) {
    this.#database = database;
    this.#log = log;
    this.#now = now;
    this.#timer = setInterval(() => void this.delete(), INTERVAL_MS).unref();
  }

  static open(database: Pick<Database, 'background'>, log: Log): ExpiredSignIns {
    const expired = new ExpiredSignIns(database, log);
    void expired.delete();
    return expired;
  }

  /** Deletes what has expired. If this fails, the next call retries. */
  delete(): Promise<void> {
    this.#running = this.#running.then(() => this.#delete());
    return this.#running;
  }

  /** Waits for the current statement. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  async #delete(): Promise<void> {
    try {
      for (const table of TABLES) {
        while (!this.#stopped && (await this.#deleteBatch(table)) === BATCH);
      }
    } catch (error) {
      this.#log.warn('cannot delete expired sessions and links; will retry', { error: loggable(error) });
    }
  }

  async #deleteBatch({ name, key, expired }: ExpiringTable): Promise<number> {
    const [table, column] = [sql.table(name), sql.ref(key)];
    const { numAffectedRows = 0n } = await sql`
      delete from ${table} where ${column} in (
        select ${column} from ${table} where ${expired(this.#now())} limit ${BATCH}
      )`.execute(this.#database.background);
    return Number(numAffectedRows);
  }
}

interface ExpiringTable {
  name: keyof Schema;
  key: string;
  /** Returns the condition of rows that have expired at a time in Unix milliseconds. */
  expired: (now: number) => RawBuilder<unknown>;
}

const TABLES: readonly ExpiringTable[] = [
  {
    name: 'sessions',
    key: 'id',
    expired: (now) => sql`expires_at <= ${now} or last_active_at <= ${now - IDLE_MS}`,
  },
  { name: 'verifications', key: 'id', expired: (now) => sql`expires_at <= ${now}` },
  { name: 'invitations', key: 'id', expired: (now) => sql`expires_at <= ${now - KEEP_INVITATIONS_MS}` },
  { name: 'attempts', key: 'name', expired: (now) => sql`until <= ${now}` },
  {
    name: 'settings',
    key: 'name',
    // The value begins with the expiry, which has 13 digits until the year 2286.
    expired: (now) => sql`name = ${SETUP_TOKEN} and value <= ${String(now)}`,
  },
];
