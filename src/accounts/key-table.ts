import { randomBytes } from 'node:crypto';
import { sql, type RawBuilder, type Selectable } from 'kysely';
import type { Database } from '../database/database.ts';
import { DEFAULT_ACCOUNT_ID, type KeyPurpose, type Schema, type Transaction } from '../database/schema.ts';
import { ServiceError } from '../core/errors.ts';
import type { Secret } from '../support/secret.ts';
import type { PlanLimits } from '../config/plan.ts';
import { appendAudit, SERVICE, type Actor, type AuditNote } from './audit.ts';
import { createKeyText, hashKey, isWellFormed, visibleParts } from './key-format.ts';
import { readLargePage, type Page, type PageQuery } from './page.ts';
import { limitsText, parsedJson, readLimits } from './plans.ts';
import { MAX_MODELS, MAX_TAGS, TAG, checkedName } from './bounds.ts';

export interface NewKey extends KeyChange {
  name: string;
  /** Default: `caller`. */
  kind?: KeyKind | undefined;
  /** Default: `api`. */
  purpose?: KeyPurpose | undefined;
  /** The session whose end revokes a playground key. Default: none. */
  sessionId?: string | undefined;
  /** Default: the default account. */
  accountId?: string | undefined;
}

/** Bounds on the keys of one account, of all purposes. */
export interface KeyBounds {
  /** Maximum keys that are neither revoked nor expired. */
  maxPerAccount: number;
  /** Maximum keys created within an hour. */
  maxCreatedPerHour: number;
}

/**
 * Creates a key and stores its hash; only the result contains the key itself. Rejects with a `ServiceError`
 * `invalid_value` (param `name`, `allowed_models`, `tags` or, for a playground key without one, `expires_at`), `not_found` or `conflict` (param `account_id`),
 * `too_many_keys` or, beyond `bounds`, `conflict`, `sign_in_required` if the session or key that creates a playground key has ended, or a
 * `DatabaseError`.
 */
export async function createKey(
  database: Database,
  newKey: NewKey,
  by: Actor = SERVICE,
  bounds: KeyBounds | null = null,
): Promise<{ key: Secret; record: KeyRow }> {
  const columns = columnsOf({ expiresAt: null, allowedModels: null, limits: null, ...newKey });
  const { kind = 'caller', purpose = 'api', accountId = DEFAULT_ACCOUNT_ID } = newKey;
  const key = createKeyText();
  const { prefix, lastFour } = visibleParts(key);
  const row = {
    id: `key_${randomBytes(12).toString('hex')}`,
    account_id: accountId,
    kind,
    purpose,
    name: newKey.name,
    prefix,
    last_four: lastFour,
    created_at: Date.now(),
    hash: hashKey(key.reveal()),
    created_by: by.id,
    session_id: newKey.sessionId ?? null,
    ...columns,
  };
  if (purpose === 'playground' && row.expires_at === null) throw cannotPostpone();
  const record = await database.kysely.transaction().execute(async (transaction) => {
    if (purpose === 'playground') await assertAuthor(transaction, by);
    await assertAccountOpen(transaction, accountId);
    if (newKey.sessionId !== undefined) await assertSignedIn(transaction, newKey.sessionId, accountId);
    if (bounds !== null) {
      await assertRate(transaction, accountId, bounds, row.created_at);
      await assertRoom(transaction, accountId, bounds, row.created_at);
    }
    const created = await transaction
      .insertInto('keys')
      .values(row)
      .returning(KEY_COLUMNS)
      .executeTakeFirstOrThrow();
    await appendAudit(transaction, by, {
      action: 'key.create',
      subject: `key:${row.id}`,
      accountId,
      detail: { kind, purpose, ...readable(columns) },
    });
    return created;
  });
  return { key, record };
}

/**
 * How long an expired playground key or secret is kept, in milliseconds: recent requests show the name of the key, and what is
 * deleted while the clock of this machine is ahead cannot be restored.
 */
const KEEP_EXPIRED_MS = 7 * 86_400_000;

/** Deletes playground keys that expired more than seven days before `now`. Resolves to the number of deleted keys. */
export async function deleteExpiredPlaygroundKeys(
  { background }: Pick<Database, 'background'>,
  now: number,
): Promise<number> {
  const expired = await background
    .selectFrom('keys')
    .select('id')
    .where('purpose', '=', 'playground')
    .where('expires_at', '<', now - KEEP_EXPIRED_MS)
    .limit(1000)
    .execute();
  if (expired.length === 0) return 0;
  await background
    .deleteFrom('keys')
    .where(
      'id',
      'in',
      expired.map(({ id }) => id),
    )
    .execute();
  return expired.length;
}

/**
 * Returns a page of the keys with one purpose (default: `api`), of one account or of all accounts. Oldest first,
 * including revoked keys. Rejects with a `ServiceError` `invalid_value` (param `limit` or `cursor`).
 */
export async function listKeyPage(
  database: Database,
  { accountId, purpose = 'api' }: { accountId?: string | undefined; purpose?: KeyPurpose | undefined },
  page: PageQuery = {},
): Promise<Page<KeyRow>> {
  const keys = database.kysely
    .selectFrom('keys')
    .select(['id', 'created_at'])
    .select(
      sql<number>`coalesce(octet_length(limits), 0) + coalesce(octet_length(allowed_models), 0) + coalesce(octet_length(tags), 0)`.as(
        'bytes',
      ),
    )
    .where('purpose', '=', purpose);
  const sizes = accountId === undefined ? keys : keys.where('account_id', '=', accountId);
  const rows = database.kysely.selectFrom('keys').select(KEY_COLUMNS).orderBy('created_at').orderBy('id');
  return await readLargePage(sizes, page, (ids) => rows.where('id', 'in', ids).execute());
}

/** Returns a key. Rejects with a `ServiceError` `not_found`. */
export async function getKey(database: Database, id: string): Promise<KeyRow> {
  const row = await database.kysely
    .selectFrom('keys')
    .select(KEY_COLUMNS)
    .where('id', '=', id)
    .executeTakeFirst();
  if (row === undefined) throw noSuchKey();
  return row;
}

/**
 * Changes the key that `named` identifies, as in `revokeKey`. `changeOf` returns the change to make to the current key.
 * Each changed field is recorded in the audit log. All instances apply the change within a second. Returns null if
 * there is no such key. Rejects with a `ServiceError` `invalid_value` (params like `createKey`, or `id` if several keys
 * match), or `conflict` if the key is revoked, or if an expired key would work again beyond `bounds`.
 */
export async function changeKey(
  database: Database,
  named: string,
  changeOf: (key: KeyRow) => KeyChange,
  by: Actor,
  bounds: KeyBounds | null = null,
): Promise<KeyRow | null> {
  return await database.kysely.transaction().execute(async (transaction) => {
    const row = await lockKey(transaction, named);
    if (row === null) return null;
    if (keyStatus(row, Date.now()) === 'damaged') {
      throw new ServiceError(
        'conflict',
        'The limits or models of this key are damaged. It can only be revoked.',
        {
          param: 'id',
        },
      );
    }
    const columns = columnsOf(changeOf(row));
    const changed = { ...row, ...columns };
    const before = readable(row);
    const fields = Object.entries(readable(changed)).filter(
      ([field, value]) => JSON.stringify(value) !== JSON.stringify(before[field]),
    );
    if (fields.length === 0) return row;
    if (row.revoked_at !== null) {
      throw new ServiceError('conflict', 'A revoked key cannot be changed.', { param: 'id' });
    }
    if (row.purpose === 'playground' && (changed.expires_at ?? Infinity) > (row.expires_at ?? Infinity)) {
      throw cannotPostpone();
    }
    const now = Date.now();
    const isRenewed = (row.expires_at ?? Infinity) <= now && (changed.expires_at ?? Infinity) > now;
    if (bounds !== null && isRenewed) {
      await assertAccountOpen(transaction, row.account_id);
      await assertRoom(transaction, row.account_id, bounds, now);
    }
    await transaction.updateTable('keys').set(columns).where('id', '=', row.id).execute();
    await appendAudit(transaction, by, {
      action: 'key.update',
      subject: `key:${row.id}`,
      accountId: row.account_id,
      detail: Object.fromEntries(fields.map(([field, to]) => [field, { from: before[field], to }])),
    });
    return changed;
  });
}

/**
 * Revokes the key with this ID or visible prefix. The key itself is also accepted, so that a leaked key can be
 * revoked. Returns null if there is no such key. Idempotent. Rejects with a `ServiceError` `invalid_value` (param
 * `id`) if several keys have the prefix.
 */
export async function revokeKey(
  database: Database,
  named: string,
  by: Actor = SERVICE,
): Promise<KeyRow | null> {
  return await database.kysely.transaction().execute(async (transaction) => {
    const row = await lockKey(transaction, named);
    if (row === null || row.revoked_at !== null) return row;
    const revokedAt = Date.now();
    await endKeys(transaction, [row], revokedAt, by);
    return { ...row, revoked_at: revokedAt };
  });
}

/**
 * Revokes the keys with these IDs, 1 to `MAX_REVOKED` of `bounds.ts`, or none of them. Keys that are revoked already stay as they are.
 * `check` is called with each key, and throws if it must not be revoked. Resolves to the keys, in the order of `ids`.
 * Rejects with a `ServiceError` `not_found` (param such as `ids[2]`).
 */
export async function revokeKeys(
  database: Database,
  ids: readonly string[],
  check: (key: KeyRow, param: string) => void,
  by: Actor,
): Promise<KeyRow[]> {
  return await database.kysely.transaction().execute(async (transaction) => {
    const rows = await transaction
      .selectFrom('keys')
      .select(KEY_COLUMNS)
      .where('id', 'in', ids)
      .orderBy('id')
      .forUpdate()
      .execute();
    const byId = new Map(rows.map((row) => [row.id, row]));
    for (const [index, id] of ids.entries()) {
      const row = byId.get(id);
      const param = `ids[${index}]`;
      if (row === undefined) throw noSuchKey(param);
      check(row, param);
    }
    const revokedAt = Date.now();
    const live = rows.filter((row) => row.revoked_at === null);
    await endKeys(transaction, live, revokedAt, by);
    for (const row of live) row.revoked_at = revokedAt;
    return ids.flatMap((id) => byId.get(id) ?? []);
  });
}

/** Revokes keys that the transaction has locked, and the playground keys that they created. */
async function endKeys(
  transaction: Transaction,
  keys: readonly KeyRow[],
  revokedAt: number,
  by: Actor,
): Promise<void> {
  await markRevoked(transaction, keys, revokedAt, by);
  for (const { id, kind } of keys)
    if (kind === 'admin') await revokeOrphanedPlaygroundKeys(transaction, `key:${id}`, by);
}

/** Maximum time that a secret works after its key was rotated, in milliseconds. */
export const MAX_PREVIOUS_MS = 30 * 86_400_000;

/**
 * Gives the key with this ID or visible prefix a new secret, which only the result contains. The previous one works until
 * `previousExpiresAt` (Unix milliseconds); a time in the past, or null, ends it immediately. One from an earlier
 * rotation ends now. Returns null if there is no such key. Rejects with a `ServiceError`: `invalid_value` (param
 * `previous_expires_at`, or `id` if several keys match), or `conflict` if the key does not work or belongs to the playground.
 */
export async function rotateKey(
  database: Database,
  named: string,
  previousExpiresAt: number | null,
  by: Actor,
): Promise<{ key: Secret; record: KeyRow } | null> {
  return await database.kysely.transaction().execute(async (transaction) => {
    const row = await lockKey(transaction, named);
    if (row === null) return null;
    const now = Date.now();
    const param = 'id';
    if (keyStatus(row, now) !== 'live')
      throw new ServiceError('conflict', 'A key that is revoked, expired or damaged cannot be rotated.', {
        param,
      });
    if (row.purpose === 'playground')
      throw new ServiceError('conflict', 'A playground key cannot be rotated.', { param });
    const expiresAt = previousExpiresAt ?? 0;
    if (!(expiresAt <= now + MAX_PREVIOUS_MS)) {
      const message = '`previous_expires_at` must be at most 30 days from now.';
      throw new ServiceError('invalid_value', message, { param: 'previous_expires_at' });
    }
    const key = createKeyText();
    const { prefix, lastFour } = visibleParts(key);
    const keeps = expiresAt > now;
    const columns = {
      prefix,
      last_four: lastFour,
      previous_last_four: keeps ? row.last_four : null,
      previous_expires_at: keeps ? expiresAt : null,
      previous_used_at: null,
    };
    await transaction
      .updateTable('keys')
      .set((is) => ({
        ...columns,
        // Both sides are values from before the update.
        previous_hash: keeps ? is.ref('hash') : null,
        hash: hashKey(key.reveal()),
      }))
      .where('id', '=', row.id)
      .execute();
    await appendAudit(transaction, by, {
      action: 'key.rotate',
      subject: `key:${row.id}`,
      accountId: row.account_id,
      detail: {
        last_four: { from: row.last_four, to: lastFour },
        previous_expires_at: keeps ? new Date(expiresAt).toISOString() : null,
      },
    });
    return { key, record: { ...row, ...columns } };
  });
}

/**
 * Ends the previous secret of the key with this ID or visible prefix. Returns null if there is no such key. Idempotent.
 * Rejects like `revokeKey`.
 */
export async function endPreviousSecret(
  database: Database,
  named: string,
  by: Actor,
): Promise<KeyRow | null> {
  return await database.kysely.transaction().execute(async (transaction) => {
    const row = await lockKey(transaction, named);
    if (row === null || row.previous_expires_at === null) return row;
    await transaction.updateTable('keys').set(NO_PREVIOUS).where('id', '=', row.id).execute();
    await appendAudit(transaction, by, {
      action: 'key.end_previous',
      subject: `key:${row.id}`,
      accountId: row.account_id,
      detail: { last_four: row.previous_last_four },
    });
    const { previous_hash: _, ...columns } = NO_PREVIOUS;
    return { ...row, ...columns };
  });
}

const NO_PREVIOUS = {
  previous_hash: null,
  previous_last_four: null,
  previous_expires_at: null,
  previous_used_at: null,
};

/** Deletes the previous secrets that stopped working more than seven days before `now`. */
export async function deleteExpiredSecrets(
  { background }: Pick<Database, 'background'>,
  now: number,
): Promise<void> {
  await background
    .updateTable('keys')
    .set(NO_PREVIOUS)
    .where('previous_expires_at', '<', now - KEEP_EXPIRED_MS)
    .execute();
}

/**
 * Revokes the playground keys that `author` (an actor of the audit log) created in accounts to which this user or key
 * no longer has access. Call in the transaction that removes the access: lists do not show playground keys by default.
 */
export async function revokeOrphanedPlaygroundKeys(
  transaction: Transaction,
  author: string,
  by: Actor,
): Promise<void> {
  await revokeUsable(
    transaction,
    sql<boolean>`created_by = ${author} and purpose = 'playground'
      and not exists (select 1 from users where 'user:' || id = ${author} and operator = 1)
      and not exists (
        select 1 from memberships where account_id = keys.account_id and 'user:' || user_id = ${author})`,
    by,
  );
}

/** Revokes the playground keys that these sessions created. Call in the transaction that ends the sessions. */
export async function revokePlaygroundKeysOf(
  transaction: Transaction,
  sessionIds: readonly string[],
  by: Actor,
): Promise<void> {
  if (sessionIds.length === 0) return;
  await revokeUsable(transaction, sql<boolean>`session_id in (${sql.join(sessionIds)})`, by);
}

/** Revokes the keys with an expiry that meet a condition and are neither revoked nor expired. */
async function revokeUsable(
  transaction: Transaction,
  condition: RawBuilder<boolean>,
  by: Actor,
): Promise<void> {
  const now = Date.now();
  const rows = await transaction
    .selectFrom('keys')
    .select(['id', 'account_id', 'purpose'])
    .where(condition)
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', now)
    .orderBy('id')
    // Locks all keys before the first update, which also locks the access revision: other changes lock a key first.
    .forUpdate()
    .execute();
  await markRevoked(transaction, rows, now, by);
}

async function markRevoked(
  transaction: Transaction,
  keys: readonly Pick<KeyRow, 'id' | 'account_id' | 'purpose'>[],
  revokedAt: number,
  by: Actor,
): Promise<void> {
  if (keys.length === 0) return;
  const ids = keys.map(({ id }) => id);
  await transaction.updateTable('keys').set({ revoked_at: revokedAt }).where('id', 'in', ids).execute();
  const action = 'key.revoke';
  const notes = keys.map(({ id, account_id: accountId, purpose }): AuditNote => ({
    action,
    subject: `key:${id}`,
    accountId,
    detail: purpose === 'api' ? {} : { purpose },
  }));
  await appendAudit(transaction, by, ...notes);
}

function cannotPostpone(): ServiceError {
  const message = 'A playground key must expire, and its expiry can only be moved to an earlier time.';
  return new ServiceError('invalid_value', message, { param: 'expires_at' });
}

export function noSuchKey(param = 'id'): ServiceError {
  return new ServiceError('not_found', 'This key does not exist.', { param });
}

/** Reads the key that `named` identifies and locks it until the transaction ends; null: there is none. */
async function lockKey(transaction: Transaction, named: string): Promise<KeyRow | null> {
  const rows = await transaction
    .selectFrom('keys')
    .select(KEY_COLUMNS)
    .where((is) =>
      isWellFormed(named)
        ? is.or([is('hash', '=', hashKey(named)), is('previous_hash', '=', hashKey(named))])
        : is.or([is('id', '=', named), is('prefix', '=', named)]),
    )
    .forUpdate()
    .execute();
  if (rows.length > 1) {
    throw new ServiceError(
      'invalid_value',
      'Several keys start with these characters. Use the ID of the key.',
      {
        param: 'id',
      },
    );
  }
  return rows[0] ?? null;
}

/**
 * Locks the user or key that creates a playground key: whatever ends these, and with them their playground keys, waits for
 * the new one, or is found here. Before the account, as when users are deleted and keys renewed, to avoid deadlocks.
 */
async function assertAuthor(transaction: Transaction, { id: author }: Actor): Promise<void> {
  const [kind, id = ''] = author.split(':');
  if (kind !== 'user' && kind !== 'key') return;
  const row = await transaction
    .selectFrom(kind === 'user' ? 'users' : 'keys')
    .select('id')
    .where('id', '=', id)
    .$if(kind === 'key', (query) => query.where(sql<boolean>`revoked_at is null`))
    .forShare()
    .executeTakeFirst();
  if (row === undefined) throw new ServiceError('sign_in_required', 'This session or key has ended.');
}

/** Locks the session, which must not have ended, and whose user must still have access to the account. */
async function assertSignedIn(transaction: Transaction, id: string, accountId: string): Promise<void> {
  const session = await transaction
    .selectFrom('sessions')
    .select('user_id')
    .where('id', '=', id)
    .forShare()
    .executeTakeFirst();
  if (session === undefined) throw new ServiceError('sign_in_required', 'This session has ended.');
  const { user_id: userId } = session;
  const access = await transaction
    .selectFrom('users')
    .leftJoin('memberships', (join) =>
      join.onRef('memberships.user_id', '=', 'users.id').on('memberships.account_id', '=', accountId),
    )
    .select(['users.operator', 'memberships.role'])
    .where('users.id', '=', userId)
    .executeTakeFirst();
  if (access?.operator === 1 || (access?.role ?? null) !== null) return;
  throw new ServiceError('not_found', 'This account does not exist.', { param: 'account_id' });
}

/** Locks the account, so that keys that are created or renewed at the same time are counted. */
async function assertAccountOpen(transaction: Transaction, accountId: string): Promise<void> {
  const account = await transaction
    .selectFrom('accounts')
    .select('status')
    .where('id', '=', accountId)
    .forNoKeyUpdate()
    .executeTakeFirst();
  if (account?.status === 'active') return;
  const param = 'account_id';
  if (account === undefined) throw new ServiceError('not_found', 'This account does not exist.', { param });
  throw new ServiceError('conflict', `This account is ${account.status}.`, { param });
}

const HOUR_MS = 3_600_000;

/** Reads at most as many rows of an index as the bound allows keys. */
async function assertRate(
  transaction: Transaction,
  accountId: string,
  { maxCreatedPerHour }: KeyBounds,
  now: number,
): Promise<void> {
  const earlier = await transaction
    .selectFrom('keys')
    .select('created_at')
    .where('account_id', '=', accountId)
    .where('created_at', '>', now - HOUR_MS)
    .orderBy('created_at', 'desc')
    .offset(maxCreatedPerHour - 1)
    .limit(1)
    .executeTakeFirst();
  if (earlier !== undefined) {
    throw new ServiceError(
      'too_many_keys',
      `At most ${maxCreatedPerHour} keys can be created in an account within an hour. Try again later.`,
      { retryAfterMs: Math.min(earlier.created_at + HOUR_MS - now, HOUR_MS) },
    );
  }
}

/** Reads at most as many rows of an index as the bound allows keys. */
async function assertRoom(
  transaction: Transaction,
  accountId: string,
  { maxPerAccount }: KeyBounds,
  now: number,
): Promise<void> {
  const usable = transaction
    .selectFrom('keys')
    .select((select) => select.fn.countAll<number>().as('count'))
    .where('account_id', '=', accountId)
    .where('revoked_at', 'is', null);
  const [permanent, temporary] = [
    await usable.where('expires_at', 'is', null).executeTakeFirstOrThrow(),
    await usable.where('expires_at', '>', now).executeTakeFirstOrThrow(),
  ];
  if (permanent.count + temporary.count >= maxPerAccount) {
    throw new ServiceError(
      'conflict',
      `An account can have at most ${maxPerAccount} keys that are neither revoked nor expired. Revoke keys that are not in use.`,
      { param: 'account_id' },
    );
  }
}

/** Changes to a key. Omitted fields stay the same. */
export interface KeyChange {
  /** 1 to 100 characters without control characters. */
  name?: string | undefined;
  /** Unix milliseconds; null: never. */
  expiresAt?: number | null | undefined;
  /** IDs of the models that it may use, 1 to `MAX_MODELS`; null: all. */
  allowedModels?: readonly string[] | null | undefined;
  /** The key's own limits, in addition to the plan's; null or empty: none. */
  limits?: PlanLimits | null | undefined;
  /** Whether a request is refused if something in it would have no effect. */
  strict?: boolean | undefined;
  /** Up to `MAX_TAGS` tags, for people to find keys; empty: none. */
  tags?: readonly string[] | undefined;
}

/** The columns that a `KeyChange` sets. */
type KeyColumns = Pick<
  Selectable<Schema['keys']>,
  'name' | 'expires_at' | 'allowed_models' | 'limits' | 'strict' | 'tags'
>;

/**
 * Converts a change to columns. Throws a `ServiceError` `invalid_value` (param `name`, `allowed_models` or `tags`). Callers
 * have validated limits and model IDs with a schema.
 */
function columnsOf({ name, expiresAt, allowedModels, limits, strict, tags }: KeyChange): Partial<KeyColumns> {
  return {
    ...(name !== undefined && { name: checkedName(name, 'key') }),
    ...(expiresAt !== undefined && { expires_at: boundedExpiry(expiresAt) }),
    ...(allowedModels !== undefined && { allowed_models: modelsText(allowedModels) }),
    ...(limits !== undefined && { limits: limitsText(limits) }),
    ...(strict !== undefined && { strict: Number(strict) }),
    ...(tags !== undefined && { tags: tagsText(tags) }),
  };
}

/** Converts columns for the audit log: times to ISO 8601, lists and limits to JSON values. */
function readable(columns: Partial<KeyColumns>): Record<string, unknown> {
  const parsed = (text: string | null): unknown => (text === null ? null : JSON.parse(text));
  const { name, expires_at: expiry, allowed_models: models, limits, strict, tags } = columns;
  return {
    ...(name !== undefined && { name }),
    ...(expiry !== undefined && { expires_at: expiry === null ? null : new Date(expiry).toISOString() }),
    ...(models !== undefined && { allowed_models: parsed(models) }),
    ...(limits !== undefined && { limits: parsed(limits) }),
    ...(strict !== undefined && { strict: strict === 1 }),
    ...(tags !== undefined && { tags: readTags(tags) }),
  };
}

/** 9999-12-31T23:59:59.999Z, the last time with a four-digit year in ISO 8601. */
const LAST_MS = 253_402_300_799_999;

/** Clamps an expiry to the years 1970 to 9999, which every client can parse. */
function boundedExpiry(expiresAt: number | null): number | null {
  if (expiresAt === null) return null;
  // SQLite would store NaN as null, and the key would never expire.
  if (Number.isNaN(expiresAt)) throw new TypeError('an expiry is not a number');
  return Math.min(Math.max(expiresAt, 0), LAST_MS);
}

function modelsText(models: readonly string[] | null): string | null {
  if (models === null) return null;
  const ids = [...new Set(models)];
  if (ids.length >= 1 && ids.length <= MAX_MODELS) return JSON.stringify(ids);
  throw new ServiceError(
    'invalid_value',
    `\`allowed_models\` must list 1 to ${MAX_MODELS} models, or be null for all models.`,
    { param: 'allowed_models' },
  );
}

function tagsText(tags: readonly string[]): string | null {
  const distinct = [...new Set(tags)];
  if (distinct.length > MAX_TAGS || !distinct.every((tag) => TAG.test(tag) && tag.isWellFormed())) {
    throw new ServiceError(
      'invalid_value',
      `\`tags\` must be at most ${MAX_TAGS} texts of 1 to 40 characters, without commas, control characters, or spaces at the ends.`,
      { param: 'tags' },
    );
  }
  return distinct.length === 0 ? null : JSON.stringify(distinct);
}

export type KeyKind = 'caller' | 'admin';

/** The columns of a key that leave `accounts/`: all but its hash. */
const KEY_COLUMNS = [
  'id',
  'account_id',
  'kind',
  'purpose',
  'name',
  'prefix',
  'last_four',
  'created_at',
  'expires_at',
  'revoked_at',
  'last_used_at',
  'last_used_ip',
  'last_used_client',
  'allowed_models',
  'limits',
  'strict',
  'tags',
  'previous_last_four',
  'previous_expires_at',
  'previous_used_at',
] as const;

/** A key, without its hash. */
export type KeyRow = Pick<Selectable<Schema['keys']>, (typeof KEY_COLUMNS)[number]>;

/**
 * Returns whether a key works now, and if not, why. `damaged`: its limits or models in the database cannot be read, so it can
 * only be revoked.
 */
export function keyStatus(key: KeyRow, now: number): 'live' | 'revoked' | 'expired' | 'damaged' {
  if (key.revoked_at !== null) return 'revoked';
  if (readAccess(key) === null) return 'damaged';
  return key.expires_at !== null && key.expires_at <= now ? 'expired' : 'live';
}

/** What a key may use. */
interface KeyAccess {
  /** Null: it has no limits. */
  limits: PlanLimits | null;
  /** The IDs of its models; null: all. */
  models: ReadonlySet<string> | null;
}

/** Parses the columns that access depends on, which were checked when they were written. Null: they are damaged. */
export function readAccess({
  limits,
  allowed_models: models,
}: Pick<KeyRow, 'limits' | 'allowed_models'>): KeyAccess | null {
  const read = { limits: readLimits(limits), models: parsedJson(models, isTextList) };
  if (read.limits === undefined || read.models === undefined) return null;
  return { limits: read.limits, models: read.models && new Set(read.models) };
}

/** Parses the column `tags`. A damaged one has none, because nothing depends on them. */
export function readTags(text: string | null): string[] {
  return parsedJson(text, isTextList) ?? [];
}

const isTextList = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string');
