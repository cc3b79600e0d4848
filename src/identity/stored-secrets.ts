import { sql } from 'kysely';
import type { Database } from '../database/database.ts';
import { DatabaseError } from '../database/errors.ts';
import { SecretKeys } from '../database/secret-keys.ts';
import type { Config } from '../config/schema.ts';
import { ServiceError } from '../core/errors.ts';
import type { Log } from '../support/log.ts';

/** Returns the place of a user's second factor for `SecretKeys`. */
export function secondFactorPlace(userId: string): string {
  return `second_factors.secret:${userId}`;
}

/** Opens the keys for secrets in the database of a service. Rejects like `prepareSecrets`. */
export async function openSecretKeys(config: Config, database: Database, log: Log): Promise<SecretKeys> {
  const keys = new SecretKeys({ home: config.home, text: config.secretKey });
  const encrypted = await prepareSecrets(database, keys);
  if (encrypted > 0) log.info('encrypted the secrets of second factors', { rows: encrypted });
  return keys;
}

/**
 * Checks that all secrets in the database can be decrypted, encrypts those that an earlier version stored in plain
 * text, and creates the key file if it is needed. Resolves to the number of secrets that were encrypted. Rejects with a
 * `DatabaseError`, which is `secret_key` if a key is missing.
 */
export async function prepareSecrets(database: Database, keys: SecretKeys): Promise<number> {
  const { rows } = await sql<{ id: string }>`
    select distinct substr(secret, 4, 8) as id from second_factors where secret like 'v1:%'`.execute(
    database.kysely,
  );
  if (rows.length === 0) await keys.createFile();
  await keys.assertKnown(rows.map(({ id }) => id));
  const plain = await database.kysely
    .selectFrom('second_factors')
    .select(['user_id', 'secret'])
    .where('secret', 'not like', 'v1:%')
    .execute();
  if (plain.length === 0) return 0;
  if (await needsSharedKey(database, keys)) throw new DatabaseError('secret_key', NEEDS_SHARED_KEY);
  return await encryptRows(database, keys, plain);
}

/** Adds a key to the key file, if it is used, and encrypts all secrets with the first key. Resolves to their number. */
export async function rotateSecrets(database: Database, keys: SecretKeys): Promise<number> {
  await prepareSecrets(database, keys);
  if (keys.inFile) await keys.addKey();
  const rows = await database.kysely.selectFrom('second_factors').select(['user_id', 'secret']).execute();
  return await encryptRows(database, keys, rows);
}

/**
 * Rejects with a `ServiceError` `not_configured` if other instances use the database but cannot read the key file of
 * this one.
 */
export async function assertSharedKeys(database: Database, keys: SecretKeys): Promise<void> {
  if (!(await needsSharedKey(database, keys))) return;
  throw new ServiceError('not_configured', NEEDS_SHARED_KEY);
}

const NEEDS_SHARED_KEY =
  'Two-factor authentication with several instances needs a key that all of them have. ' +
  'Set SLUICE_SECRET_KEY to the same value on every instance.';

async function needsSharedKey({ location, kysely }: Database, keys: SecretKeys): Promise<boolean> {
  if (!keys.inFile || location.kind === 'sqlite') return false;
  const live = await kysely.selectFrom('instances').select('epoch').where('live', '=', 1).execute();
  return live.length > 1;
}

interface SecretRow {
  user_id: string;
  secret: string;
}

/** Encrypts each secret with the first key, unless the row has changed since. */
async function encryptRows(
  { kysely }: Database,
  keys: SecretKeys,
  rows: readonly SecretRow[],
): Promise<number> {
  for (const { user_id: userId, secret } of rows) {
    const place = secondFactorPlace(userId);
    const encrypted = await keys.encrypt(await keys.decrypt(secret, place), place);
    await kysely
      .updateTable('second_factors')
      .set({ secret: encrypted })
      .where('user_id', '=', userId)
      .where('secret', '=', secret)
      .execute();
  }
  return rows.length;
}
