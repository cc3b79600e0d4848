import type { Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { hashToken } from './token.ts';
import { matchingStep, newTotpSecret, randomBase32, totpUri } from './totp.ts';

/**
 * The second factor is our own, and not better-auth's, which takes a code twice, keeps recovery codes so that they
 * can be read, and asks for none of it when somebody comes from a provider.
 */

const RECOVERY_CODES = 10;

/** What a person gets to see once. */
export interface NewSecondFactor {
  uri: string;
  recoveryCodes: string[];
}

/** Makes a second factor that counts once it is confirmed, in place of one that was not. Null: there is one already. */
export async function beginSecondFactor(
  database: Database,
  person: { id: string; email: string },
): Promise<NewSecondFactor | null> {
  const secret = newTotpSecret();
  return await database.kysely.transaction().execute(async (transaction) => {
    const now = Date.now();
    const { numInsertedOrUpdatedRows = 0n } = await transaction
      .insertInto('second_factors')
      .values({ person_id: person.id, secret, confirmed: 0, last_step: 0, created_at: now })
      .onConflict((conflict) =>
        conflict
          .column('person_id')
          .doUpdateSet({ secret, last_step: 0, created_at: now })
          .where('second_factors.confirmed', '=', 0),
      )
      .executeTakeFirst();
    if (numInsertedOrUpdatedRows === 0n) return null;
    const recoveryCodes = await newRecoveryCodes(transaction, person.id);
    return { uri: totpUri(secret, 'Sluice', person.email), recoveryCodes };
  });
}

/**
 * Whether this is a code of the person's authenticator app that was not taken before. The newest step taken is kept,
 * by one conditional update: of two that send the same code at once, one is refused.
 */
export async function takeTotp(
  { kysely }: Pick<Database, 'kysely'>,
  personId: string,
  code: string,
  confirmed: boolean,
): Promise<boolean> {
  const row = await kysely
    .selectFrom('second_factors')
    .select('secret')
    .where('person_id', '=', personId)
    .where('confirmed', '=', confirmed ? 1 : 0)
    .executeTakeFirst();
  const step = row && matchingStep(row.secret, code, Date.now());
  if (row === undefined || step === null || step === undefined) return false;
  const { numUpdatedRows } = await kysely
    .updateTable('second_factors')
    .set({ last_step: step, confirmed: 1 })
    .where('person_id', '=', personId)
    .where('secret', '=', row.secret)
    .where('last_step', '<', step)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Whether this is a recovery code of the person; it is none any more then. */
export async function takeRecoveryCode(
  { kysely }: Database,
  personId: string,
  code: string,
): Promise<boolean> {
  const { numDeletedRows } = await kysely
    .deleteFrom('recovery_codes')
    .where('person_id', '=', personId)
    .where('hash', '=', hashToken(normal(code)))
    .executeTakeFirst();
  return numDeletedRows > 0n;
}

/** Puts new recovery codes in the place of the old ones. */
export async function newRecoveryCodes(
  transaction: Transaction<Schema>,
  personId: string,
): Promise<string[]> {
  const codes = Array.from({ length: RECOVERY_CODES }, () => randomBase32(16));
  await transaction.deleteFrom('recovery_codes').where('person_id', '=', personId).execute();
  await transaction
    .insertInto('recovery_codes')
    .values(codes.map((code) => ({ person_id: personId, hash: hashToken(code) })))
    .execute();
  return codes.map((code) => (code.match(/.{4}/g) ?? []).join('-').toLowerCase());
}

/** Takes a person's second factor away. Whether they had one. */
export async function removeSecondFactor(
  transaction: Transaction<Schema>,
  personId: string,
): Promise<boolean> {
  await transaction.deleteFrom('recovery_codes').where('person_id', '=', personId).execute();
  await transaction.deleteFrom('second_factors').where('person_id', '=', personId).execute();
  const { numUpdatedRows } = await transaction
    .updateTable('people')
    .set({ two_factor: 0, updated_at: Date.now() })
    .where('id', '=', personId)
    .where('two_factor', '=', 1)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** A recovery code as it is hashed, however it was typed. */
function normal(code: string): string {
  return code.toUpperCase().replaceAll(/[^A-Z2-7]/g, '');
}
