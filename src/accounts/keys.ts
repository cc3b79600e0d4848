import { createHmac } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { sql, type Selectable } from 'kysely';
import type { Database } from '../database/database.ts';
import { DatabaseError } from '../database/errors.ts';
import { CACHE_SCOPE_SECRET, type Schema } from '../database/schema.ts';
import type { PlanLimits } from '../config/plan.ts';
import { ServiceError } from '../errors.ts';
import type { Log } from '../log.ts';
import { Secret } from '../secret.ts';
import { hashKey, isWellFormed, KEY_LENGTH } from './key-format.ts';
import { readLimits, readModels, type KeyKind, type KeyRecord } from './key-record.ts';
import { createKey, deleteExpiredPlaygroundKeys, listKeys, revokeKey, type NewKey } from './key-table.ts';

/** The key of a request and what it may use. */
export interface AuthenticatedKey {
  readonly id: string;
  readonly accountId: string;
  readonly kind: KeyKind;
  readonly name: string;
  /** Cached prompts are reused only between requests with the same scope: one scope per account. */
  readonly cacheScope: string;
  /** Name of the account's plan; null: the default plan. */
  readonly plan: string | null;
  /** The key's own limits, which apply in addition to the plan's; null: none. */
  readonly limits: PlanLimits | null;
  /** IDs of the models that it may use; null: all. */
  readonly models: ReadonlySet<string> | null;
  /** Unix milliseconds; Infinity: never. */
  readonly expiresAt: number;
}

/** Clocks that tests can replace. */
export interface KeyClock {
  /** Unix milliseconds, for times that users set. */
  now(): number;
  /** Milliseconds on a monotonic clock, for durations. */
  elapsed(): number;
}

export interface KeyStoreOptions {
  /** How long keys are trusted while the database is unreachable, in milliseconds. */
  maxStaleMs: number;
  /** Called after each refresh, so that requests of revoked keys can be ended. */
  afterRefresh?: (keys: KeyStore) => void;
  clock?: KeyClock;
}

/**
 * The keys of a running service. Live keys are in memory by hash. The database's revision is polled every `POLL_MS`, to
 * notice that other processes have revoked keys. A key that is not in memory is looked up in the database, so new
 * keys work immediately. Changes by this process apply immediately. Plaintext keys and headers are not kept in memory.
 */
export class KeyStore implements AsyncDisposable {
  readonly #database: Database;
  readonly #log: Log;
  readonly #maxStaleMs: number;
  readonly #afterRefresh: (keys: KeyStore) => void;
  readonly #clock: KeyClock;
  readonly #scopeSecret: Secret;
  readonly #timers: readonly NodeJS.Timeout[];
  /** By hash. */
  #live: ReadonlyMap<string, AuthenticatedKey> = new Map();
  #byId: ReadonlyMap<string, AuthenticatedKey> = new Map();
  #revision: number | null = null;
  /** The number of refreshes started so far, which is also the number of the latest one. */
  #refreshes = 0;
  /** The number of the refresh that loaded the keys in memory. */
  #loadedBy = 0;
  /** When the live keys were last up to date, on the monotonic clock. */
  #confirmedAt = -Infinity;
  #polling: Promise<void> | null = null;
  #writing = Promise.resolve();
  /** When `writeLastUsed` last wrote, on the monotonic clock. */
  #writtenAt = -Infinity;
  #failing = false;
  /** Keys used since the last write, with the IP address of the last use. */
  #used = new Map<string, string | null>();

  private constructor(database: Database, log: Log, options: KeyStoreOptions, scopeSecret: Secret) {
    this.#database = database;
    this.#log = log;
    this.#maxStaleMs = options.maxStaleMs;
    this.#afterRefresh = options.afterRefresh ?? (() => {});
    this.#clock = options.clock ?? SYSTEM_CLOCK;
    this.#scopeSecret = scopeSecret;
    this.#timers = [
      setInterval(() => {
        this.#polling ??= this.#poll().finally(() => (this.#polling = null));
      }, POLL_MS).unref(),
      setInterval(() => void this.writeLastUsed(), LAST_USED_MS).unref(),
      setInterval(() => void this.deleteExpired(), DELETE_EXPIRED_MS).unref(),
    ];
  }

  /** Loads the keys and starts polling. Rejects with a `DatabaseError`. The caller keeps ownership of `database`. */
  static async open(database: Database, log: Log, options: KeyStoreOptions): Promise<KeyStore> {
    const setting = await database.kysely
      .selectFrom('settings')
      .select('value')
      .where('name', '=', CACHE_SCOPE_SECRET)
      .executeTakeFirstOrThrow();
    const store = new KeyStore(database, log, options, new Secret(setting.value));
    try {
      await store.refresh();
    } catch (error) {
      store.#stop();
      throw error;
    }
    await store.deleteExpired();
    return store;
  }

  /**
   * Returns the live key of an `Authorization` header; null for any invalid header. Returns a promise only if the
   * database must be queried. Throws, or rejects with, a `ServiceError` `storage_unavailable` if the keys are not
   * `fresh`, or if an unknown key cannot be looked up.
   */
  authenticate(
    authorization: string | undefined,
    ip: string | null = null,
  ): AuthenticatedKey | null | Promise<AuthenticatedKey | null> {
    if (!this.fresh) throw cannotCheck();
    const text = bearerToken(authorization);
    // Checks only the length before hashing the text, because hashing costs less than checking the format.
    if (text?.length !== KEY_LENGTH) return null;
    const hash = hashKey(text);
    const found = this.#live.get(hash);
    if (found !== undefined) return this.#useUnlessExpired(found, ip);
    return isWellFormed(text) ? this.#lookUp(hash, ip) : null;
  }

  /** Whether the keys in memory were up to date within the last `maxStaleMs`. */
  get fresh(): boolean {
    return this.#clock.elapsed() - this.#confirmedAt <= this.#maxStaleMs;
  }

  /** Whether a key that was authenticated is still live. */
  isLive(key: AuthenticatedKey): boolean {
    const current = this.#byId.get(key.id);
    return current !== undefined && current.expiresAt > this.#clock.now();
  }

  /** Like `createKey`. The key works when this resolves. */
  async create(newKey: NewKey): Promise<{ key: Secret; record: KeyRecord }> {
    const created = await createKey(this.#database, newKey);
    await this.refresh();
    return created;
  }

  /** Like `revokeKey`. The key no longer works when this resolves. */
  async revoke(named: string): Promise<KeyRecord | null> {
    const revoked = await revokeKey(this.#database, named);
    await this.refresh();
    return revoked;
  }

  /** Returns all keys, including revoked ones, oldest first. */
  list(): Promise<KeyRecord[]> {
    return listKeys(this.#database);
  }

  /** Loads the live keys if the database has changed. Rejects with a `DatabaseError`. */
  async refresh(): Promise<void> {
    const asOf = this.#clock.elapsed();
    const refresh = ++this.#refreshes;
    const revision = await this.#database.accessRevision();
    if (revision !== this.#revision) {
      const rows = await this.#liveRows().execute();
      // Refreshes can overlap; a later one may have loaded newer rows.
      if (refresh > this.#loadedBy) {
        const keys = rows.map((row) => [row.hash, this.#toKey(row)] as const);
        this.#live = new Map(keys);
        this.#byId = new Map(keys.map(([, key]) => [key.id, key]));
        this.#revision = revision;
        this.#loadedBy = refresh;
      }
    }
    this.#confirmedAt = Math.max(this.#confirmedAt, asOf);
    this.#afterRefresh(this);
  }

  /**
   * Saves the time and IP address of each key's last use, without delaying ledger writes. If this fails, the next call
   * retries.
   */
  writeLastUsed(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#writeLastUsed());
    return this.#writing;
  }

  /**
   * Like `writeLastUsed`, at most once a second. Call before listing keys, so that their last use is not older than
   * their requests in the ledger, which are saved immediately.
   */
  async refreshLastUsed(): Promise<void> {
    if (this.#clock.elapsed() - this.#writtenAt >= REFRESH_MS) await this.writeLastUsed();
  }

  /** Deletes expired playground keys. If this fails, the next call retries. */
  async deleteExpired(): Promise<void> {
    try {
      await writeBetweenOthers(() => deleteExpiredPlaygroundKeys(this.#database, this.#clock.now()));
    } catch (error) {
      this.#log.warn('cannot delete expired playground keys; will retry', { error: error as Error });
    }
  }

  async #writeLastUsed(): Promise<void> {
    this.#writtenAt = this.#clock.elapsed();
    const used = [...this.#used];
    this.#used.clear();
    try {
      for (let start = 0; start < used.length; start += LAST_USED_BATCH) {
        const batch = used.slice(start, start + LAST_USED_BATCH);
        const addresses = sql.join(
          batch.map(([id, ip]) => sql`when ${id} then ${ip}`),
          sql` `,
        );
        await writeBetweenOthers(() =>
          this.#database.background
            .updateTable('keys')
            .set({
              last_used_at: this.#clock.now(),
              last_used_ip: sql<string | null>`coalesce(case id ${addresses} end, last_used_ip)`,
            })
            .where(
              'id',
              'in',
              batch.map(([id]) => id),
            )
            .execute(),
        );
      }
    } catch (error) {
      for (const [id, ip] of used) this.#used.set(id, this.#used.get(id) ?? ip);
      this.#log.warn('cannot save the last use of keys; will retry', { error: error as Error });
    }
  }

  /** Stops polling and writes the last use of keys. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop();
    await this.#polling;
    await this.writeLastUsed();
  }

  #stop(): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** A failed poll changes nothing. If polls keep failing, the keys become stale and requests are refused. */
  async #poll(): Promise<void> {
    try {
      await this.refresh();
      if (this.#failing) this.#log.info('API keys can be read from the database again');
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) {
        this.#log.error('API keys cannot be read from the database', { error: error as Error });
      }
      this.#failing = true;
    }
  }

  #useUnlessExpired(key: AuthenticatedKey, ip: string | null): AuthenticatedKey | null {
    if (key.expiresAt <= this.#clock.now()) return null;
    this.#used.set(key.id, ip);
    return key;
  }

  /**
   * Looks up a live key that was created after the last refresh. An unknown key costs one query of the revision,
   * and an index lookup only if the database has changed.
   */
  async #lookUp(hash: string, ip: string | null): Promise<AuthenticatedKey | null> {
    try {
      const revision = await this.#database.accessRevision();
      // A poll may have loaded the key in the meantime.
      const loaded = this.#live.get(hash);
      if (loaded !== undefined) return this.#useUnlessExpired(loaded, ip);
      if (revision === this.#revision) return null;
      const row = await this.#liveRows().where('keys.hash', '=', hash).executeTakeFirst();
      return row === undefined ? null : this.#useUnlessExpired(this.#toKey(row), ip);
    } catch (error) {
      throw cannotCheck(error);
    }
  }

  #liveRows() {
    return this.#database.kysely
      .selectFrom('keys')
      .innerJoin('accounts', 'accounts.id', 'keys.account_id')
      .select(['keys.id', 'keys.account_id', 'keys.kind', 'keys.name', 'keys.hash', 'keys.expires_at'])
      .select(['keys.limits', 'keys.allowed_models', 'accounts.plan'])
      .where('accounts.status', '=', 'active')
      .where('keys.revoked_at', 'is', null);
  }

  #toKey(row: LiveRow): AuthenticatedKey {
    const { id, account_id: accountId, kind, name, plan } = row;
    return {
      id,
      accountId,
      kind,
      name,
      cacheScope: this.#scopeOf(accountId),
      plan,
      limits: readLimits(row.limits),
      models: readModels(row.allowed_models),
      expiresAt: row.expires_at ?? Infinity,
    };
  }

  /** Returns the cache scope of an account: unique per account, without revealing the account ID to the engine. */
  #scopeOf(accountId: string): string {
    return createHmac('sha256', this.#scopeSecret.reveal()).update(accountId).digest('base64url');
  }
}

type LiveRow = Pick<
  Selectable<Schema['keys']>,
  'id' | 'account_id' | 'kind' | 'name' | 'hash' | 'expires_at' | 'limits' | 'allowed_models'
> &
  Pick<Selectable<Schema['accounts']>, 'plan'>;

/** Interval between polls of the revision, in milliseconds. */
const POLL_MS = 250;
const LAST_USED_MS = 60_000;
const DELETE_EXPIRED_MS = 3_600_000;
/** Minimum interval between writes by `refreshLastUsed`. */
const REFRESH_MS = 1000;
/** Keys per statement, because SQLite limits the number of parameters. */
const LAST_USED_BATCH = 500;

/** Maximum attempts of a background write while the database is busy, and the pause between attempts. */
const ATTEMPTS = 20;
const ATTEMPT_PAUSE_MS = 5;

/**
 * Tries a write up to `ATTEMPTS` times while the database is busy. Under load, the gaps between ledger writes are
 * shorter than a millisecond, so one attempt rarely succeeds.
 */
async function writeBetweenOthers(write: () => Promise<unknown>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await write();
      return;
    } catch (error) {
      if (attempt === ATTEMPTS || !(error instanceof DatabaseError) || error.fault !== 'busy') throw error;
      await pause(ATTEMPT_PAUSE_MS);
    }
  }
}

const SYSTEM_CLOCK: KeyClock = { now: () => Date.now(), elapsed: () => performance.now() };

function cannotCheck(cause?: unknown): ServiceError {
  return new ServiceError(
    'storage_unavailable',
    'API keys cannot be checked because the database is not available. Try again later.',
    {
      retryAfterMs: 1000,
      cause,
    },
  );
}

/** RFC 6750, section 2.1, and RFC 9110, section 11.1: the scheme's case does not matter. */
function bearerToken(authorization: string | undefined): string | null {
  if (authorization === undefined || authorization.slice(0, 7).toLowerCase() !== 'bearer ') return null;
  return authorization.slice(7).trim();
}
