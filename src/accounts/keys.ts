import { createHmac } from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import { sql, type InferResult } from 'kysely';
import type { Database } from '../database/database.ts';
import { loggable } from '../database/errors.ts';
import { ACCESS_RELOAD, CACHE_SCOPE_SECRET } from '../database/schema.ts';
import type { PlanLimits } from '../config/plan.ts';
import { readLimits } from './plans.ts';
import { ServiceError } from '../core/errors.ts';
import type { Log } from '../support/log.ts';
import { Secret } from '../support/secret.ts';
import { SYSTEM_CLOCK, type Clock } from './clock.ts';
import { hashKey, isWellFormed, KEY_LENGTH } from './key-format.ts';
import {
  readAccess,
  type KeyKind,
  type KeyRow,
  createKey,
  deleteExpiredPlaygroundKeys,
  deleteExpiredSecrets,
  revokeKey,
  type NewKey,
} from './key-table.ts';

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
  /** The account's own limits over those of the plan; null: none. */
  readonly accountLimits: PlanLimits | null;
  /** The key's own limits, which apply in addition to the plan's; null: none. */
  readonly limits: PlanLimits | null;
  /** IDs of the models that it may use; null: all. */
  readonly models: ReadonlySet<string> | null;
  /** Whether a request is refused if something in it would have no effect. */
  readonly strict: boolean;
  /** Unix milliseconds; Infinity: never. */
  readonly expiresAt: number;
  /** Whether the request has the secret from before the key was rotated. */
  readonly isPrevious: boolean;
}

/** Where a request came from. */
export interface KeyUse {
  /** IP address; null: unknown. */
  readonly ip: string | null;
  /** Name of the program, as `clientName` returns it; null: unknown. */
  readonly client: string | null;
}

export interface KeyStoreOptions {
  /** How long keys are trusted while the database is unreachable, in milliseconds. */
  maxStaleMs: number;
  /** Called after each poll and each change, so that requests of revoked and expired keys can be ended. */
  afterRefresh?: (keys: KeyStore) => void;
  /** Called with the cache scope of an account that was closed, after `afterRefresh`. */
  onClosed?: (cacheScope: string) => void;
  clock?: Clock;
}

/**
 * The keys of a running service. Live keys are in memory by hash. The database's revision is polled every `POLL_MS`, to
 * notice that other processes have revoked keys, and read for each key that is not in memory, so that new keys work
 * immediately. A change costs as much as the number of keys that it affects. Changes by this process apply immediately.
 * Plaintext keys and headers are not kept in memory.
 */
export class KeyStore implements AsyncDisposable {
  readonly #database: Database;
  readonly #log: Log;
  readonly #maxStaleMs: number;
  readonly #afterRefresh: (keys: KeyStore) => void;
  readonly #onClosed: (cacheScope: string) => void;
  readonly #clock: Clock;
  readonly #cacheScopeSecret: Secret;
  readonly #timers: readonly NodeJS.Timeout[];
  /** The keys that were live when they were read, by hash. Expired keys are removed after `KEEP_EXPIRED_MS`. */
  #live = new Map<string, AuthenticatedKey>();
  /** The hashes of `#live` by ID: that of the secret, and that of the previous one. */
  #hashes = new Map<string, readonly string[]>();
  /** The access revision up to which changes are in memory; null: none was read yet. */
  #revision: number | null = null;
  /** Keys that expired before this time are not in memory. Unix milliseconds. */
  #expiredBefore = -Infinity;
  /** When the live keys were last up to date, on the monotonic clock. */
  #confirmedAt = -Infinity;
  /** Resolves when the current refresh has ended. */
  #refreshing: Promise<void> = Promise.resolve();
  /** The refresh that runs next. */
  #nextRefresh: Promise<void> | null = null;
  #polling: Promise<void> | null = null;
  #writing: Promise<void> | null = null;
  /** When `writeLastUsed` last wrote, on the monotonic clock. */
  #writtenAt = -Infinity;
  #failing = false;
  /** Keys used since the last write, with their last use. */
  #used = new Map<string, KeyUse>();
  /** Hashes of previous secrets that were used since the last write. A key may have another one by then. */
  #previousUsed = new Set<string>();

  private constructor(database: Database, log: Log, options: KeyStoreOptions, cacheScopeSecret: Secret) {
    this.#database = database;
    this.#log = log;
    this.#maxStaleMs = options.maxStaleMs;
    this.#afterRefresh = options.afterRefresh ?? (() => {});
    this.#onClosed = options.onClosed ?? (() => {});
    this.#clock = options.clock ?? SYSTEM_CLOCK;
    this.#cacheScopeSecret = cacheScopeSecret;
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
    use: KeyUse = UNKNOWN_USE,
  ): AuthenticatedKey | null | Promise<AuthenticatedKey | null> {
    if (!this.fresh) throw cannotCheck();
    const text = bearerToken(authorization);
    // Checks only the length before hashing the text, because hashing costs less than checking the format.
    if (text?.length !== KEY_LENGTH) return null;
    const hash = hashKey(text);
    const found = this.#live.get(hash);
    if (found !== undefined) return this.#useUnlessExpired(found, hash, use);
    return isWellFormed(text) ? this.#lookUp(hash, use) : null;
  }

  /** Whether the keys in memory were up to date within the last `maxStaleMs`. */
  get fresh(): boolean {
    return this.#clock.elapsed() - this.#confirmedAt <= this.#maxStaleMs;
  }

  /** Returns a key that was authenticated, as it is now; null: it is no longer live. */
  current(key: AuthenticatedKey): AuthenticatedKey | null {
    const current = this.#live.get(this.#hashes.get(key.id)?.[0] ?? '');
    return current !== undefined && current.expiresAt > this.#clock.now() ? current : null;
  }

  /** Like `createKey`. The key works when this resolves. */
  async create(newKey: NewKey): Promise<{ key: Secret; record: KeyRow }> {
    const created = await createKey(this.#database, newKey);
    await this.refresh();
    return created;
  }

  /** Like `revokeKey`. The key no longer works when this resolves. */
  async revoke(named: string): Promise<KeyRow | null> {
    const revoked = await revokeKey(this.#database, named);
    await this.refresh();
    return revoked;
  }

  /**
   * Loads the changes of the database that were committed before this call. Calls wait for the refresh that is running,
   * because it may have read before their change, and then share one. Rejects with a `DatabaseError`.
   */
  refresh(): Promise<void> {
    this.#nextRefresh ??= this.#refreshing.then(() => {
      this.#nextRefresh = null;
      const refresh = this.#refresh();
      this.#refreshing = refresh.catch(() => {});
      return refresh;
    });
    return this.#nextRefresh;
  }

  /**
   * Saves the time, IP address and client of each key's last use, without delaying ledger writes. If this fails, the next call
   * retries. Calls share a write that is running.
   */
  writeLastUsed(): Promise<void> {
    this.#writing ??= this.#writeLastUsed().finally(() => (this.#writing = null));
    return this.#writing;
  }

  /**
   * Like `writeLastUsed`, at most once a second. Call before listing keys, so that their last use is not older than
   * their requests in the ledger, which are saved immediately.
   */
  async refreshLastUsed(): Promise<void> {
    if (this.#clock.elapsed() - this.#writtenAt >= REFRESH_MS) await this.writeLastUsed();
  }

  /**
   * Removes expired keys from memory, and expired playground keys and previous secrets from the database. The next call
   * retries failures.
   */
  async deleteExpired(): Promise<void> {
    this.#removeExpired();
    try {
      await deleteExpiredPlaygroundKeys(this.#database, this.#clock.now());
      await deleteExpiredSecrets(this.#database, this.#clock.now());
    } catch (error) {
      this.#log.warn('cannot delete expired keys; will retry', { error: loggable(error) });
    }
  }

  async #writeLastUsed(): Promise<void> {
    this.#writtenAt = this.#clock.elapsed();
    const used = [...this.#used];
    const previousUsed = [...this.#previousUsed];
    this.#used.clear();
    this.#previousUsed.clear();
    try {
      for (let start = 0; start < used.length; start += LAST_USED_BATCH) {
        const batch = used.slice(start, start + LAST_USED_BATCH);
        await this.#database.background
          .updateTable('keys')
          .set({
            last_used_at: this.#clock.now(),
            last_used_ip: lastUsed(batch, 'ip'),
            last_used_client: lastUsed(batch, 'client'),
          })
          .where(
            'id',
            'in',
            batch.map(([id]) => id),
          )
          .execute();
      }
      for (let start = 0; start < previousUsed.length; start += LAST_USED_BATCH)
        await this.#database.background
          .updateTable('keys')
          .set({ previous_used_at: this.#clock.now() })
          .where('previous_hash', 'in', previousUsed.slice(start, start + LAST_USED_BATCH))
          .execute();
    } catch (error) {
      for (const [id, use] of used) this.#used.set(id, this.#used.get(id) ?? use);
      for (const hash of previousUsed) this.#previousUsed.add(hash);
      this.#log.warn('cannot save the last use of keys; will retry', { error: loggable(error) });
    }
  }

  /** Stops polling and writes the last use of keys. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop();
    await this.#polling;
    await this.#writing;
    await this.writeLastUsed();
  }

  #stop(): void {
    for (const timer of this.#timers) clearInterval(timer);
  }

  /** A failed poll changes nothing. If polls keep failing, the keys become stale and requests are refused. */
  async #poll(): Promise<void> {
    try {
      await this.refresh();
      // Also ends the requests of keys that have expired.
      this.#afterRefresh(this);
      if (this.#failing) this.#log.info('API keys can be read from the database again');
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) {
        this.#log.error('API keys cannot be read from the database', { error: error as Error });
      }
      this.#failing = true;
    }
  }

  async #refresh(): Promise<void> {
    const asOf = this.#clock.elapsed();
    const revision = await this.#database.accessRevision();
    if (await this.#mustReload(revision)) await this.#reload(revision);
    else if (revision !== this.#revision) await this.#loadChanges(this.#revision ?? 0, revision);
    this.#confirmedAt = Math.max(this.#confirmedAt, asOf);
  }

  /**
   * Whether all keys must be read: at the start, after a key was deleted or the database was restored, or if the clock
   * was set back to before keys in the database expired that are not in memory.
   */
  async #mustReload(revision: number): Promise<boolean> {
    const loaded = this.#revision;
    if (loaded === null || revision < loaded || this.#clock.now() < this.#expiredBefore) return true;
    if (revision === loaded) return false;
    const { value } = await this.#database.kysely
      .selectFrom('settings')
      .select('value')
      .where('name', '=', ACCESS_RELOAD)
      .executeTakeFirstOrThrow();
    return Number(value) > loaded;
  }

  async #reload(revision: number): Promise<void> {
    const expiredBefore = this.#clock.now() - KEEP_EXPIRED_MS;
    const [live, hashes] = [new Map<string, AuthenticatedKey>(), new Map<string, readonly string[]>()];
    const usable = rowsOf(this.#database)
      .where('keys.revoked_at', 'is', null)
      .where(expiresAfter(expiredBefore))
      .where('accounts.status', '=', 'active');
    for await (const key of this.#read(usable, 'access_revision', { position: -1, id: '' }))
      if (key.usable) addSecrets(key.secrets, live, hashes);
    [this.#live, this.#hashes, this.#revision, this.#expiredBefore] = [live, hashes, revision, expiredBefore];
    this.#afterRefresh(this);
  }

  async #loadChanges(since: number, revision: number): Promise<void> {
    const expiredBefore = this.#clock.now() - KEEP_EXPIRED_MS;
    const after = { position: since, id: MAX_ID };
    for await (const changed of this.#read(rowsOf(this.#database), 'access_revision', after)) {
      this.#set(changed);
    }
    const accounts = await this.#database.kysely
      .selectFrom('accounts')
      .select(['id', 'status'])
      .where('access_revision', '>', since)
      .execute();
    for (const { id } of accounts) {
      const usable = rowsOf(this.#database)
        .where('keys.account_id', '=', id)
        .where('keys.revoked_at', 'is', null)
        .where(expiresAfter(expiredBefore));
      for await (const changed of this.#read(usable, 'created_at', { position: -1, id: '' })) {
        this.#set(changed);
      }
      await turn();
    }
    this.#revision = revision;
    this.#afterRefresh(this);
    // Requests of these accounts have ended now. Later ones would leave something in their scope again.
    for (const { id, status } of accounts) if (status === 'closed') this.#onClosed(this.#cacheScopeOf(id));
  }

  /** Reads keys in the order of a column and their ID, after a position. Yields to the event loop between pages. */
  async *#read(
    rows: ReturnType<typeof rowsOf>,
    column: 'access_revision' | 'created_at',
    after: { position: number; id: string },
  ): AsyncGenerator<LoadedKey, void> {
    let { position, id } = after;
    for (;;) {
      const page = await rows
        .where(sql<boolean>`(${sql.ref(`keys.${column}`)}, keys.id) > (${position}, ${id})`)
        .orderBy(`keys.${column}`)
        .orderBy('keys.id')
        .limit(PAGE_ROWS)
        .execute();
      yield* this.#toKeys(page);
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE_ROWS) return;
      [position, id] = [last[column], last.id];
      await turn();
    }
  }

  #set({ id, secrets, usable }: LoadedKey): void {
    // The hashes may have been replaced in the database, and the earlier ones may belong to another key now.
    for (const hash of this.#hashes.get(id) ?? [])
      if (this.#live.get(hash)?.id === id) this.#live.delete(hash);
    this.#hashes.delete(id);
    if (usable) addSecrets(secrets, this.#live, this.#hashes);
  }

  #removeExpired(): void {
    const expiredBefore = this.#clock.now() - KEEP_EXPIRED_MS;
    if (expiredBefore <= this.#expiredBefore) return;
    this.#expiredBefore = expiredBefore;
    for (const [hash, { id, expiresAt, isPrevious }] of this.#live) {
      if (expiresAt > expiredBefore) continue;
      this.#live.delete(hash);
      if (!isPrevious) this.#hashes.delete(id);
    }
  }

  #useUnlessExpired(key: AuthenticatedKey, hash: string, { ip, client }: KeyUse): AuthenticatedKey | null {
    if (key.expiresAt <= this.#clock.now()) return null;
    // A copy, because the caller's object may hold the whole request.
    this.#used.set(key.id, { ip, client });
    if (key.isPrevious) this.#previousUsed.add(hash);
    return key;
  }

  /** Looks up a key that may have been created after the last refresh. All lookups of a moment share one refresh. */
  async #lookUp(hash: string, use: KeyUse): Promise<AuthenticatedKey | null> {
    try {
      await this.refresh();
    } catch (error) {
      throw cannotCheck(error);
    }
    const found = this.#live.get(hash);
    return found === undefined ? null : this.#useUnlessExpired(found, hash, use);
  }

  *#toKeys(rows: readonly Row[]): Generator<LoadedKey, void> {
    /** The cache scope of each account, because computing it takes longer than the rest. */
    const cacheScopes = new Map<string, string>();
    /** By their text, so that the keys of an account share one object. */
    const limitsOf = new Map<string, PlanLimits | undefined>();
    for (const row of rows) {
      const { id, account_id: accountId, kind, name, hash, plan } = row;
      const access = this.#accessOf(row);
      const accountLimits = this.#accountLimitsOf(row, limitsOf);
      const cacheScope = cacheScopes.get(accountId) ?? this.#cacheScopeOf(accountId);
      cacheScopes.set(accountId, cacheScope);
      const key: AuthenticatedKey = {
        id,
        accountId,
        kind,
        name,
        cacheScope,
        plan,
        accountLimits: accountLimits ?? null,
        limits: access?.limits ?? null,
        models: access?.models ?? null,
        strict: row.strict === 1,
        expiresAt: row.expires_at ?? Infinity,
        isPrevious: false,
      };
      const secrets: [KeySecret, ...KeySecret[]] = [{ hash, key }];
      if (row.previous_hash !== null) {
        const expiresAt = Math.min(key.expiresAt, row.previous_expires_at ?? 0);
        secrets.push({ hash: row.previous_hash, key: { ...key, expiresAt, isPrevious: true } });
      }
      const usable =
        access !== null && accountLimits !== undefined && row.revoked_at === null && row.status === 'active';
      yield { id, secrets, usable };
    }
  }

  /** Returns null for a key that cannot be used, because its row is damaged. The other keys still work. */
  #accessOf(row: Row): Pick<AuthenticatedKey, 'limits' | 'models'> | null {
    const access = readAccess(row);
    if (access === null)
      this.#log.error('a key cannot be used: its limits or models in the database are damaged', {
        key: row.id,
      });
    return access;
  }

  /** Returns undefined for damaged limits. The keys of that account cannot be used. */
  #accountLimitsOf(
    { account_id: account, account_limits: text }: Row,
    known: Map<string, PlanLimits | undefined>,
  ): PlanLimits | null | undefined {
    if (text === null) return null;
    if (!known.has(text)) {
      const limits = readLimits(text) ?? undefined;
      known.set(text, limits);
      if (limits === undefined)
        this.#log.error('the keys of an account cannot be used: its limits in the database are damaged', {
          account,
        });
    }
    return known.get(text);
  }

  /** Returns the cache scope of an account: unique per account, without revealing the account ID to the engine. */
  #cacheScopeOf(accountId: string): string {
    return createHmac('sha256', this.#cacheScopeSecret.reveal()).update(accountId).digest('base64url');
  }
}

const UNKNOWN_USE: KeyUse = { ip: null, client: null };

/** Returns the SQL for a column of the last use of keys. What is unknown does not replace what is known. */
function lastUsed(uses: readonly (readonly [id: string, use: KeyUse])[], of: keyof KeyUse) {
  const values = sql.join(
    uses.map(([id, use]) => sql`when ${id} then ${use[of]}`),
    sql` `,
  );
  return sql<string | null>`coalesce(case id ${values} end, ${sql.ref(`last_used_${of}`)})`;
}

function addSecrets(
  secrets: LoadedKey['secrets'],
  live: Map<string, AuthenticatedKey>,
  hashes: Map<string, readonly string[]>,
): void {
  for (const { hash, key } of secrets) live.set(hash, key);
  const [first] = secrets;
  hashes.set(
    first.key.id,
    secrets.map(({ hash }) => hash),
  );
}

/** Selects the keys with the columns that access depends on. */
function rowsOf({ kysely }: Database) {
  return kysely
    .selectFrom('keys')
    .innerJoin('accounts', 'accounts.id', 'keys.account_id')
    .select(['keys.id', 'keys.account_id', 'keys.kind', 'keys.name', 'keys.hash', 'keys.expires_at'])
    .select([
      'keys.limits',
      'keys.allowed_models',
      'keys.strict',
      'keys.revoked_at',
      'keys.created_at',
      'keys.access_revision',
      'keys.previous_hash',
      'keys.previous_expires_at',
    ])
    .select(['accounts.plan', 'accounts.status', 'accounts.limits as account_limits']);
}

type Row = InferResult<ReturnType<typeof rowsOf>>[number];

interface LoadedKey {
  id: string;
  /** The current secret and, until it expires, the previous one. */
  secrets: readonly [KeySecret, ...KeySecret[]];
  /** Whether it is neither revoked nor a key of an account that is not active. It may have expired. */
  usable: boolean;
}

/** A hash, and what a request with its secret gets. */
interface KeySecret {
  hash: string;
  key: AuthenticatedKey;
}

function expiresAfter(time: number) {
  return sql<boolean>`(keys.expires_at is null or keys.expires_at > ${time})`;
}

/** Keys per query. Reading them from SQLite blocks the event loop for a few milliseconds. */
const PAGE_ROWS = 500;
/** Greater than all IDs of keys. */
const MAX_ID = '~';
/**
 * How long expired keys stay in memory, in milliseconds, so that they need not be read again when the clock is set back
 * a little.
 */
const KEEP_EXPIRED_MS = 3_600_000;
/** Interval between polls of the revision, in milliseconds. */
const POLL_MS = 250;
const LAST_USED_MS = 60_000;
const DELETE_EXPIRED_MS = 3_600_000;
/** Minimum interval between writes by `refreshLastUsed`. */
const REFRESH_MS = 1000;
/** Keys per statement, because SQLite limits the number of parameters. */
const LAST_USED_BATCH = 500;

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
