import type { Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import type { SecretKeys } from '../database/secret-keys.ts';
import type { Schema } from '../database/schema.ts';
import { secondFactorPlace } from './stored-secrets.ts';
import { hashToken } from './token.ts';
import { matchingStep, newTotpSecret, randomBase32, totpUri } from './totp.ts';

/**
 * Two-factor authentication. The implementation of better-auth is not used, because it accepts a code twice, stores
 * recovery codes in plain text, and asks for no code after a provider's sign-in.
 */

const RECOVERY_CODES = 10;

/** Shown to the user once. */
export interface NewSecondFactor {
  uri: string;
  recoveryCodes: string[];
}

/** Creates a second factor, which the user must confirm. Replaces an unconfirmed one. Null: already enabled. */
export async function beginSecondFactor(
  database: Database,
  secretKeys: SecretKeys,
  user: { id: string; email: string },
): Promise<NewSecondFactor | null> {
  const plain = newTotpSecret();
  const secret = await secretKeys.encrypt(plain, secondFactorPlace(user.id));
  return await database.kysely.transaction().execute(async (transaction) => {
    const now = Date.now();
    const { numInsertedOrUpdatedRows = 0n } = await transaction
      .insertInto('second_factors')
      .values({ user_id: user.id, secret, confirmed: 0, last_step: 0, created_at: now })
      .onConflict((conflict) =>
        conflict
          .column('user_id')
          .doUpdateSet({ secret, last_step: 0, created_at: now })
          .where('second_factors.confirmed', '=', 0),
      )
      .executeTakeFirst();
    if (numInsertedOrUpdatedRows === 0n) return null;
    const recoveryCodes = await createRecoveryCodes(transaction, user.id);
    return { uri: totpUri(plain, 'Sluice', user.email), recoveryCodes };
  });
}

/**
 * Returns whether this is an unused code of the user's authenticator app. A conditional update of the last used step
 * ensures that concurrent requests cannot use the same code.
 */
export async function consumeTotp(
  { kysely }: Pick<Database, 'kysely'>,
  secretKeys: SecretKeys,
  userId: string,
  code: string,
  confirmed: boolean,
): Promise<boolean> {
  const row = await kysely
    .selectFrom('second_factors')
    .select('secret')
    .where('user_id', '=', userId)
    .where('confirmed', '=', confirmed ? 1 : 0)
    .executeTakeFirst();
  if (row === undefined) return false;
  const secret = await secretKeys.decrypt(row.secret, secondFactorPlace(userId));
  const step = matchingStep(secret, code, Date.now());
  if (step === null) return false;
  const { numUpdatedRows } = await kysely
    .updateTable('second_factors')
    .set({ last_step: step, confirmed: 1 })
    .where('user_id', '=', userId)
    .where('secret', '=', row.secret)
    .where('last_step', '<', step)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Deletes a recovery code of the user and returns whether it existed. */
export async function consumeRecoveryCode(
  { kysely }: Database,
  userId: string,
  code: string,
): Promise<boolean> {
  const { numDeletedRows } = await kysely
    .deleteFrom('recovery_codes')
    .where('user_id', '=', userId)
    .where('hash', '=', hashToken(normalized(code)))
    .executeTakeFirst();
  return numDeletedRows > 0n;
}

/** Replaces the recovery codes of a user. */
export async function createRecoveryCodes(
  transaction: Transaction<Schema>,
  userId: string,
): Promise<string[]> {
  const codes = Array.from({ length: RECOVERY_CODES }, () => randomBase32(16));
  await transaction.deleteFrom('recovery_codes').where('user_id', '=', userId).execute();
  await transaction
    .insertInto('recovery_codes')
    .values(codes.map((code) => ({ user_id: userId, hash: hashToken(code) })))
    .execute();
  return codes.map((code) => (code.match(/.{4}/g) ?? []).join('-').toLowerCase());
}

/** Removes the second factor of a user and returns whether there was one. */
export async function removeSecondFactor(transaction: Transaction<Schema>, userId: string): Promise<boolean> {
  await transaction.deleteFrom('recovery_codes').where('user_id', '=', userId).execute();
  await transaction.deleteFrom('second_factors').where('user_id', '=', userId).execute();
  const { numUpdatedRows } = await transaction
    .updateTable('users')
    .set({ two_factor: 0, updated_at: Date.now() })
    .where('id', '=', userId)
    .where('two_factor', '=', 1)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Removes differences in how a recovery code is typed. */
function normalized(code: string): string {
  return code.toUpperCase().replaceAll(/[^A-Z2-7]/g, '');
}
