import type { Database } from '../database/database.ts';
import { firstIdAt } from '../database/partitions.ts';
import { AUDIT_KEEP_FROM } from '../database/schema.ts';
import type { Log } from '../log.ts';
import { steadyNow } from './steady-now.ts';

const DAY_MS = 86_400_000;
const INTERVAL_MS = 3_600_000;
/** Entries per statement, because a statement blocks the event loop on SQLite. */
const BATCH = 500;

/**
 * Deletes entries of the audit log that are older than `audit.keepDays`, every hour. Without this setting, makes the
 * database refuse to delete any entry.
 */
export class AuditRetention implements AsyncDisposable {
  readonly #database: Database;
  readonly #keepDays: number | undefined;
  readonly #log: Log;
  readonly #now: () => number;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> = Promise.resolve();
  #stopped = false;

  /** `now` returns Unix milliseconds. */
  constructor(database: Database, keepDays: number | undefined, log: Log, now: () => number = steadyNow) {
    this.#database = database;
    this.#keepDays = keepDays;
    this.#log = log;
    this.#now = now;
    this.#timer = setInterval(() => void this.deleteOld(), INTERVAL_MS).unref();
  }

  /** The first deletion is an hour later, because the clock of a machine that has just started may not be set yet. */
  static open(database: Database, keepDays: number | undefined, log: Log): AuditRetention {
    const retention = new AuditRetention(database, keepDays, log);
    if (keepDays === undefined) void retention.deleteOld();
    return retention;
  }

  /** Deletes old entries. If this fails, the next call retries. */
  deleteOld(): Promise<void> {
    this.#running = this.#running.then(() => this.#deleteOld());
    return this.#running;
  }

  /** Waits for the current batch. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  async #deleteOld(): Promise<void> {
    const keepFrom = this.#keepDays === undefined ? 0 : this.#now() - this.#keepDays * DAY_MS;
    let deleted = 0;
    try {
      await this.#allowDeletion(keepFrom);
      while (!this.#stopped) {
        const rows = await this.#deleteBatch(keepFrom);
        deleted += rows;
        if (rows < BATCH) break;
      }
    } catch (error) {
      this.#log.warn('cannot delete old entries of the audit log; will retry', { error: error as Error });
    }
    if (deleted > 0) {
      this.#log.info('deleted old entries of the audit log', {
        entries: deleted,
        before: new Date(keepFrom).toISOString(),
      });
    }
  }

  /** The database refuses to delete entries that are not older than this setting. */
  async #allowDeletion(keepFrom: number): Promise<void> {
    const value = String(keepFrom);
    await this.#database.background
      .insertInto('settings')
      .values({ name: AUDIT_KEEP_FROM, value })
      .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
      .execute();
  }

  async #deleteBatch(keepFrom: number): Promise<number> {
    const { numDeletedRows } = await this.#database.background
      .deleteFrom('audit')
      .where('id', 'in', (old) =>
        old.selectFrom('audit').select('id').where('id', '<', firstIdAt(keepFrom)).orderBy('id').limit(BATCH),
      )
      .executeTakeFirst();
    return Number(numDeletedRows);
  }
}
