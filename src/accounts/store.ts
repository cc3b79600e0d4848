import type { Database } from '../database/database.ts';
import { DatabaseError } from '../database/errors.ts';
import { ServiceError } from '../errors.ts';

/** The database as callers of this folder's functions hand it on, without a need to know what it is. */
export type AccountDatabase = Database;

/**
 * The database of accounts for those who answer callers: what goes wrong in it is a `storage_unavailable` to them,
 * and its words are for the log alone.
 */
export class AccountStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Does work on the database. Rejects as the work does, with `storage_unavailable` for every `DatabaseError`. */
  async use<T>(work: (database: AccountDatabase) => Promise<T>): Promise<T> {
    try {
      return await work(this.#database);
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      throw new ServiceError('storage_unavailable', 'The database is not available now. Try again later.', {
        retryAfterMs: 1000,
        cause: error,
      });
    }
  }
}
