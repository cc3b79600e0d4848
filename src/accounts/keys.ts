import { createHmac } from 'node:crypto';
import type { Selectable } from 'kysely';
import type { Database } from '../database/database.ts';
import { CACHE_SCOPE_SECRET, type Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import type { Log } from '../log.ts';
import { Secret } from '../secret.ts';
import { isWellFormed } from './key-format.ts';
import { hashKey } from './key-hash.ts';
import type { KeyKind, KeyRecord } from './key-record.ts';
import { countKeys, createKey, listKeys, revokeKey, type NewKey } from './key-table.ts';

/** Who a request is from. */
export interface AuthenticatedKey {
  readonly id: string;
  readonly accountId: string;
  readonly kind: KeyKind;
  readonly name: string;
  /** Prefixes are reused between requests of the same scope only: one scope an account. */
  readonly cacheScope: string;
}

/** The two clocks, so that tests can hold them. */
export interface KeyClock {
  /** Unix milliseconds: for what people set, such as expiry. */
  now(): number;
  /** Milliseconds that never run backwards: for how long something has lasted. */
  elapsed(): number;
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
  readonly #clock: KeyClock;
  readonly #scopeSecret: Secret;
  readonly #timers: readonly NodeJS.Timeout[];
  #live: ReadonlyMap<string, LiveKey> = new Map();
  #revision: number | null = null;
  /** When the live keys were last known to be true, on the clock that never runs backwards. */
  #confirmedAt = -Infinity;
  #polling: Promise<void> | null = null;
  #writing: Promise<void> | null = null;
  #failing = false;
  #used = new Set<string>();

  private constructor(database: Database, log: Log, clock: KeyClock, scopeSecret: Secret) {
    this.#database = database;
    this.#log = log;
    this.#clock = clock;
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
  static async open(database: Database, log: Log, clock: KeyClock = SYSTEM_CLOCK): Promise<KeyStore> {
    const setting = await database.kysely
      .selectFrom('settings')
      .select('value')
      .where('name', '=', CACHE_SCOPE_SECRET)
      .executeTakeFirstOrThrow();
    const store = new KeyStore(database, log, clock, new Secret(setting.value));
    try {
      await store.refresh();
    } catch (error) {
      store.#stop();
      throw error;
    }
    return store;
  }

  /**
   * Who sent this `Authorization` header; null for every header that opens nothing, whatever is wrong with it.
   * Rejects with a `ServiceError` `storage_unavailable` once the keys are no longer `fresh`, and for a key that is
   * not in memory while the database cannot be asked for it.
   */
  async authenticate(authorization: string | undefined): Promise<AuthenticatedKey | null> {
    if (!this.fresh) throw cannotCheck();
    const text = bearerToken(authorization);
    if (text === null || !isWellFormed(text)) return null;
    const hash = hashKey(text);
    const found = this.#live.get(hash) ?? (await this.#madeSince(hash));
    if (found === undefined || found.expiresAt <= this.#clock.now()) return null;
    this.#used.add(found.key.id);
    return found.key;
  }

  /** Whether the keys in memory were true within the last `MAX_STALE_MS`. */
  get fresh(): boolean {
    return this.#clock.elapsed() - this.#confirmedAt <= MAX_STALE_MS;
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

  /** How many keys were ever made, revoked ones among them. */
  count(): Promise<number> {
    return countKeys(this.#database);
  }

  /** Loads the live keys anew if anything was committed since the last time. Rejects with a `DatabaseError`. */
  async refresh(): Promise<void> {
    const asOf = this.#clock.elapsed();
    const revision = this.#database.revision();
    if (revision !== this.#revision) {
      this.#live = await this.#load();
      this.#revision = revision;
    }
    this.#confirmedAt = asOf;
  }

  /**
   * Writes down which keys were used since the last time, in one go and only if nobody holds the database. What
   * cannot be written is kept for the next time: nobody waits for it and no request fails by it.
   */
  async writeLastUsed(): Promise<void> {
    const used = [...this.#used];
    this.#used.clear();
    try {
      for (let start = 0; start < used.length; start += LAST_USED_BATCH) {
        await this.#database.background
          .updateTable('keys')
          .set({ last_used_at: this.#clock.now() })
          .where('id', 'in', used.slice(start, start + LAST_USED_BATCH))
          .execute();
      }
    } catch (error) {
      for (const id of used) this.#used.add(id);
      this.#log.warn('the last use of keys could not be written yet', { error: error as Error });
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
      if (this.#failing) this.#log.info('keys can be read from the database again');
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) {
        this.#log.error('keys cannot be read from the database', { error: error as Error });
      }
      this.#failing = true;
    }
  }

  /**
   * The live key of this hash if it was made after those in memory were loaded. Unknown keys are cheap, however
   * many come: 4 µs each, and a look into an index for as long as a commit waits for the next poll.
   */
  async #madeSince(hash: string): Promise<LiveKey | undefined> {
    try {
      if (this.#database.revision() === this.#revision) return undefined;
      const row = await this.#liveRows().where('keys.hash', '=', hash).executeTakeFirst();
      return row && this.#toLiveKey(row);
    } catch (error) {
      throw cannotCheck(error);
    }
  }

  async #load(): Promise<ReadonlyMap<string, LiveKey>> {
    const rows = await this.#liveRows().execute();
    return new Map(rows.map((row) => [row.hash, this.#toLiveKey(row)]));
  }

  #liveRows() {
    return this.#database.kysely
      .selectFrom('keys')
      .innerJoin('accounts', 'accounts.id', 'keys.account_id')
      .select(['keys.id', 'keys.account_id', 'keys.kind', 'keys.name', 'keys.hash', 'keys.expires_at'])
      .where('accounts.status', '=', 'active')
      .where('keys.revoked_at', 'is', null);
  }

  #toLiveKey(row: LiveRow): LiveKey {
    const { id, account_id: accountId, kind, name } = row;
    const cacheScope = this.#scopeOf(accountId);
    return { key: { id, accountId, kind, name, cacheScope }, expiresAt: row.expires_at ?? Infinity };
  }

  /** The cache scope of an account: tells accounts apart without telling an engine which they are. */
  #scopeOf(accountId: string): string {
    return createHmac('sha256', this.#scopeSecret.reveal()).update(accountId).digest('base64url');
  }
}

type LiveRow = Pick<
  Selectable<Schema['keys']>,
  'id' | 'account_id' | 'kind' | 'name' | 'hash' | 'expires_at'
>;

interface LiveKey {
  key: AuthenticatedKey;
  /** Unix milliseconds; Infinity: never. */
  expiresAt: number;
}

/** How often the database is asked whether it changed. */
const POLL_MS = 250;
/** How long the keys are trusted while the database does not answer. */
const MAX_STALE_MS = 5000;
const LAST_USED_MS = 60_000;
/** Keys named in one statement: SQLite bounds its parameters. */
const LAST_USED_BATCH = 500;

const SYSTEM_CLOCK: KeyClock = { now: () => Date.now(), elapsed: () => performance.now() };

function cannotCheck(cause?: unknown): ServiceError {
  return new ServiceError('storage_unavailable', 'Keys cannot be checked now.', {
    retryAfterMs: 1000,
    cause,
  });
}

/** RFC 6750, section 2.1, and RFC 9110, section 11.1: the scheme's case does not matter. */
function bearerToken(authorization: string | undefined): string | null {
  if (authorization === undefined || authorization.slice(0, 7).toLowerCase() !== 'bearer ') return null;
  return authorization.slice(7).trim();
}
