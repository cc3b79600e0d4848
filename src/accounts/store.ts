import type { Database } from '../database/database.ts';
import { DatabaseError } from '../database/errors.ts';
import { ServiceError } from '../core/errors.ts';

/** The database as request handlers receive it; `http/` does not import `database/`. */
export type AccountDatabase = Database;

/** The accounts database for request handlers. Turns database errors into `storage_unavailable` or `conflict`. */
export class AccountStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Runs `work`. Rejects like `work`, but with `conflict` for a `DatabaseError` `conflict`, and with
   * `storage_unavailable` for every other `DatabaseError`.
   */
  async use<T>(work: (database: AccountDatabase) => Promise<T>): Promise<T> {
    try {
      return await work(this.#database);
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      if (error.fault === 'conflict') {
        const message = 'Another request made a conflicting change at the same time. Try again.';
        throw new ServiceError('conflict', message, { cause: error });
      }
      throw new ServiceError(
        'storage_unavailable',
        'The database is currently unavailable. Try again later.',
        { retryAfterMs: 1000, cause: error },
      );
    }
  }
}
