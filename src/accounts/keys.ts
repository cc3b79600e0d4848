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
import { isWellFormed } from './key-format.ts';
import { hashKey } from './key-hash.ts';
import { readLimits, readModels } from './key-limits.ts';
import type { KeyKind, KeyRecord } from './key-record.ts';
import { createKey, listKeys, revokeKey, type NewKey } from './key-table.ts';

/** Who a request is from, and what it may use. */
export interface AuthenticatedKey {
  readonly id: string;
  readonly accountId: string;
  readonly kind: KeyKind;
  readonly name: string;
  /** Prefixes are reused between requests of the same scope only: one scope an account. */
  readonly cacheScope: string;
  /** Name of the account's plan; null: the default one. */
  readonly plan: string | null;
  /** The key's own limits, below the plan's; null: none. */
  readonly limits: PlanLimits | null;
  /** Ids of the models that it may use; null: all. */
  readonly models: ReadonlySet<string> | null;
  /** Unix milliseconds; Infinity: never. */
  readonly expiresAt: number;
}

/** The two clocks, so that tests can hold them. */
export interface KeyClock {
  /** Unix milliseconds: for what people set, such as expiry. */
  now(): number;
  /** Milliseconds that never run backwards: for how long something has lasted. */
  elapsed(): number;
}

export interface KeyStoreOptions {
  /** How long keys are trusted while the database does not answer, in milliseconds. */
  maxStaleMs: number;
  /** Called after each look at the database, so that what a key no longer opens can be ended. */
  afterCheck?: (keys: KeyStore) => void;
  clock?: KeyClock;
}

/**
 * The keys of a running service. Those that open something are in memory by their hash; a poll of the database's
 * revision keeps them true, so a key that another process revokes is refused here within `POLL_MS`. One that it
 * makes opens at once, since a key that is not in memory is looked for in the database. What this process does
 * holds at once. No key is kept in memory, nor a request's header.
 */
export class KeyStore implements AsyncDisposable {
  readonly #database: Database;
  readonly #log: Log;
  readonly #maxStaleMs: number;
  readonly #afterCheck: (keys: KeyStore) => void;
  readonly #clock: KeyClock;
  readonly #scopeSecret: Secret;
  readonly #timers: readonly NodeJS.Timeout[];
  /** By hash, and by id. */
  #live: ReadonlyMap<string, AuthenticatedKey> = new Map();
  #byId: ReadonlyMap<string, AuthenticatedKey> = new Map();
  #revision: number | null = null;
  /** Refreshes begun so far, and the one that loaded the keys in memory. */
  #refreshes = 0;
  #loadedBy = 0;
  /** When the live keys were last known to be true, on the clock that never runs backwards. */
  #confirmedAt = -Infinity;
  #polling: Promise<void> | null = null;
  #writing: Promise<void> | null = null;
  #failing = false;
  /** Keys that were used since this was last written, and the address of the last use. */
  #used = new Map<string, string | null>();

  private constructor(database: Database, log: Log, options: KeyStoreOptions, scopeSecret: Secret) {
    this.#database = database;
    this.#log = log;
    this.#maxStaleMs = options.maxStaleMs;
    this.#afterCheck = options.afterCheck ?? (() => {});
    this.#clock = options.clock ?? SYSTEM_CLOCK;
    this.#scopeSecret = scopeSecret;
    this.#timers = [
      setInterval(() => {
        this.#polling ??= this.#poll().finally(() => (this.#polling = null));
      }, POLL_MS).unref(),
      setInterval(() => {
        this.#writing = this.writeLastUsed();
      }, LAST_USED_MS).unref(),
    ];
  }

  /** Loads the keys and starts to watch them. Rejects with a `DatabaseError`. The database stays the caller's. */
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
    return store;
  }

  /**
   * Who sent this `Authorization` header, from this address; null for every header that opens nothing, whatever is
   * wrong with it. At once for keys in memory; a promise only where the database has to be asked.
   * Throws, or rejects with, a `ServiceError` `storage_unavailable` once the keys are no longer `fresh`, and for a
   * key that is not in memory while the database cannot be asked for it.
   */
  authenticate(
    authorization: string | undefined,
    ip: string | null = null,
  ): AuthenticatedKey | null | Promise<AuthenticatedKey | null> {
    if (!this.fresh) throw cannotCheck();
    const text = bearerToken(authorization);
    if (text === null || !isWellFormed(text)) return null;
    const hash = hashKey(text);
    const found = this.#live.get(hash);
    return found === undefined ? this.#madeSince(hash, ip) : this.#admitted(found, ip);
  }

  /** Whether the keys in memory were true within the last `maxStaleMs`. */
  get fresh(): boolean {
    return this.#clock.elapsed() - this.#confirmedAt <= this.#maxStaleMs;
  }

  /** Whether a key that opened something opens it still. */
  opens(key: AuthenticatedKey): boolean {
    const now = this.#byId.get(key.id);
    return now !== undefined && now.expiresAt > this.#clock.now();
  }

  /** As `createKey`; the key opens its doors when this resolves. */
  async create(wanted: NewKey): Promise<{ key: Secret; record: KeyRecord }> {
    const made = await createKey(this.#database, wanted);
    await this.refresh();
    return made;
  }

  /** As `revokeKey`; the key opens nothing when this resolves. */
  async revoke(named: string): Promise<KeyRecord | null> {
    const revoked = await revokeKey(this.#database, named);
    await this.refresh();
    return revoked;
  }

  /** Every key there ever was, the oldest first. */
  list(): Promise<KeyRecord[]> {
    return listKeys(this.#database);
  }

  /** Loads the live keys if any of them changed since the last time. Rejects with a `DatabaseError`. */
  async refresh(): Promise<void> {
    const asOf = this.#clock.elapsed();
    const refresh = ++this.#refreshes;
    const revision = await this.#database.accessRevision();
    if (revision !== this.#revision) {
      const rows = await this.#liveRows().execute();
      // Refreshes overlap. One that began later may have loaded changes that these rows do not have.
      if (refresh > this.#loadedBy) {
        const keys = rows.map((row) => [row.hash, this.#toKey(row)] as const);
        this.#live = new Map(keys);
        this.#byId = new Map(keys.map(([, key]) => [key.id, key]));
        this.#revision = revision;
        this.#loadedBy = refresh;
      }
    }
    this.#confirmedAt = Math.max(this.#confirmedAt, asOf);
    this.#afterCheck(this);
  }

  /**
   * Writes down which keys were used since the last time, and from where, in the moments in which nobody else writes. What cannot be
   * written is kept for the next time: nobody waits for it and no request fails by it.
   */
  async writeLastUsed(): Promise<void> {
    const used = [...this.#used];
    this.#used.clear();
    try {
      for (let start = 0; start < used.length; start += LAST_USED_BATCH) {
        const batch = used.slice(start, start + LAST_USED_BATCH);
        const addresses = sql.join(
          batch.map(([id, ip]) => sql`when ${id} then ${ip}`),
          sql` `,
        );
        await betweenOthers(() =>
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
      this.#log.warn('last use of keys not saved yet', { error: error as Error });
    }
  }

  /** Stops watching and writes down what was used. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop();
    await this.#polling;
    await this.#writing;
    await this.writeLastUsed();
  }

  #stop(): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** A poll that fails changes nothing by itself: the keys stop being fresh, and requests are refused for it. */
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

  #admitted(key: AuthenticatedKey, ip: string | null): AuthenticatedKey | null {
    if (key.expiresAt <= this.#clock.now()) return null;
    this.#used.set(key.id, ip);
    return key;
  }

  /**
   * The live key of this hash if it was made after those in memory were loaded. Unknown keys are cheap, however
   * many come: a question for the revision each, and a look into an index only while a change waits for its poll.
   */
  async #madeSince(hash: string, ip: string | null): Promise<AuthenticatedKey | null> {
    try {
      const revision = await this.#database.accessRevision();
      // A poll may have loaded it while the database was asked.
      const loaded = this.#live.get(hash);
      if (loaded !== undefined) return this.#admitted(loaded, ip);
      if (revision === this.#revision) return null;
      const row = await this.#liveRows().where('keys.hash', '=', hash).executeTakeFirst();
      return row === undefined ? null : this.#admitted(this.#toKey(row), ip);
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

  /** The cache scope of an account: tells accounts apart without telling an engine which they are. */
  #scopeOf(accountId: string): string {
    return createHmac('sha256', this.#scopeSecret.reveal()).update(accountId).digest('base64url');
  }
}

type LiveRow = Pick<
  Selectable<Schema['keys']>,
  'id' | 'account_id' | 'kind' | 'name' | 'hash' | 'expires_at' | 'limits' | 'allowed_models'
> &
  Pick<Selectable<Schema['accounts']>, 'plan'>;

/** How often the database is asked whether it changed. */
const POLL_MS = 250;
const LAST_USED_MS = 60_000;
/** Keys named in one statement: SQLite bounds its parameters. */
const LAST_USED_BATCH = 500;

/** How often a write that nobody waits for is tried while others hold the database, and the pause between. */
const ATTEMPTS = 20;
const ATTEMPT_PAUSE_MS = 5;

/** Under load the ledger writes most of the time, with gaps of less than a millisecond: some attempt finds one. */
async function betweenOthers(write: () => Promise<unknown>): Promise<void> {
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
