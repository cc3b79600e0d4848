import type { Database } from '../database/database.ts';
import { DatabaseError } from '../database/errors.ts';
import { ServiceError } from '../errors.ts';

/** The database as request handlers receive it; `http/` does not import `database/`. */
export type AccountDatabase = Database;

/** The accounts database for request handlers. Turns database errors into `storage_unavailable`. */
export class AccountStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Runs `work`. Rejects like `work`, but with `storage_unavailable` for every `DatabaseError`. */
  async use<T>(work: (database: AccountDatabase) => Promise<T>): Promise<T> {
    try {
      return await work(this.#database);
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      throw new ServiceError(
        'storage_unavailable',
        'The database is currently unavailable. Try again later.',
        { retryAfterMs: 1000, cause: error },
      );
    }
  }
}
