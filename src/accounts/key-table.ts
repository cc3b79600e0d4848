import { randomBytes } from 'node:crypto';
import { DEFAULT_ACCOUNT_ID } from '../database/schema.ts';
import type { Database } from '../database/database.ts';
import { ServiceError } from '../errors.ts';
import type { Secret } from '../secret.ts';
import { createKeyText, isWellFormed, visibleParts } from './key-format.ts';
import { hashKey } from './key-hash.ts';
import { toRecord, type KeyKind, type KeyRecord } from './key-record.ts';

export interface NewKey {
  /** 1 to 100 characters, none of them a control character. */
  name: string;
  /** `caller` unless said otherwise. */
  kind?: KeyKind;
  /** Unix milliseconds, in the future; null: never. */
  expiresAt?: number | null;
  /** The account `default` unless said otherwise. */
  accountId?: string;
}

/**
 * Makes a key and stores its hash. The key itself is in the answer and nowhere else. Rejects with a `ServiceError`
 * `invalid_value` (param `name`, `expires_at` or `account_id`), or a `DatabaseError`.
 */
export async function createKey(
  database: Database,
  wanted: NewKey,
): Promise<{ key: Secret; record: KeyRecord }> {
  const now = Date.now();
  const name = checkedName(wanted.name);
  const expiresAt = wanted.expiresAt ?? null;
  if (expiresAt !== null && !(Number.isSafeInteger(expiresAt) && expiresAt > now)) {
    throw new ServiceError('invalid_value', 'A key must expire in the future.', { param: 'expires_at' });
  }
  const accountId = wanted.accountId ?? DEFAULT_ACCOUNT_ID;
  const key = createKeyText();
  const { prefix, lastFour } = visibleParts(key);
  const row = await database.kysely.transaction().execute(async (transaction) => {
    const account = await transaction
      .selectFrom('accounts')
      .select('id')
      .where('id', '=', accountId)
      .executeTakeFirst();
    if (account === undefined) {
      throw new ServiceError('invalid_value', 'There is no such account.', { param: 'account_id' });
    }
    return await transaction
      .insertInto('keys')
      .values({
        id: `key_${randomBytes(12).toString('hex')}`,
        account_id: accountId,
        kind: wanted.kind ?? 'caller',
        name,
        hash: hashKey(key.reveal()),
        prefix,
        last_four: lastFour,
        created_at: now,
        expires_at: expiresAt,
        revoked_at: null,
        last_used_at: null,
      })
      .returningAll()
      .executeTakeFirstOrThrow();
  });
  return { key, record: toRecord(row) };
}

/** Every key there ever was, the oldest first. */
export async function listKeys(database: Database): Promise<KeyRecord[]> {
  const rows = await database.kysely
    .selectFrom('keys')
    .selectAll()
    .orderBy('created_at')
    .orderBy('id')
    .execute();
  return rows.map(toRecord);
}

/** How many keys were ever made, revoked ones among them. */
export async function countKeys(database: Database): Promise<number> {
  const row = await database.kysely
    .selectFrom('keys')
    .select((select) => select.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return row.count;
}

/**
 * Revokes one key, named by its id, by its visible first characters, or by the key itself (so that one found in the
 * open can be closed). Null: there is none such. Revoking again changes nothing. Rejects with a `ServiceError`
 * `invalid_value` (param `id`) when the first characters are those of several keys.
 */
export async function revokeKey(database: Database, named: string): Promise<KeyRecord | null> {
  return await database.kysely.transaction().execute(async (transaction) => {
    const rows = await transaction
      .selectFrom('keys')
      .selectAll()
      .where((is) =>
        isWellFormed(named)
          ? is('hash', '=', hashKey(named))
          : is.or([is('id', '=', named), is('prefix', '=', named)]),
      )
      .execute();
    const [row] = rows;
    if (row === undefined) return null;
    if (rows.length > 1) {
      throw new ServiceError('invalid_value', 'Several keys begin like that; name one by its id.', {
        param: 'id',
      });
    }
    if (row.revoked_at !== null) return toRecord(row);
    const revokedAt = Date.now();
    await transaction.updateTable('keys').set({ revoked_at: revokedAt }).where('id', '=', row.id).execute();
    return toRecord({ ...row, revoked_at: revokedAt });
  });
}

const MAX_NAME = 100;

/** Names are shown in terminals and logs, so nothing that moves a cursor may stand in them. */
function checkedName(name: string): string {
  const trimmed = name.trim();
  if (
    trimmed === '' ||
    trimmed.length > MAX_NAME ||
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(trimmed) ||
    !trimmed.isWellFormed()
  ) {
    throw new ServiceError(
      'invalid_value',
      `A key's name has 1 to ${MAX_NAME} characters, none of them a control character.`,
      { param: 'name' },
    );
  }
  return trimmed;
}
