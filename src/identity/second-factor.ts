import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Database } from '../database/database.ts';
import type { SecretKeys } from '../database/secret-keys.ts';
import type { Transaction } from '../database/schema.ts';
import { secondFactorPlace } from './stored-secrets.ts';
import { hashToken } from './token.ts';

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

/** Whether the user has enabled the second factor, so that every session must complete it. */
export async function hasSecondFactor({ kysely }: Database, userId: string): Promise<boolean> {
  const row = await kysely
    .selectFrom('users')
    .select('id')
    .where('id', '=', userId)
    .where('two_factor', '=', 1)
    .executeTakeFirst();
  return row !== undefined;
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
export async function createRecoveryCodes(transaction: Transaction, userId: string): Promise<string[]> {
  const codes = Array.from({ length: RECOVERY_CODES }, () => randomBase32(16));
  await transaction.deleteFrom('recovery_codes').where('user_id', '=', userId).execute();
  await transaction
    .insertInto('recovery_codes')
    .values(codes.map((code) => ({ user_id: userId, hash: hashToken(code) })))
    .execute();
  return codes.map((code) => (code.match(/.{4}/g) ?? []).join('-').toLowerCase());
}

/** Removes the second factor of a user and returns whether there was one. */
export async function removeSecondFactor(transaction: Transaction, userId: string): Promise<boolean> {
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

/** Time-based one-time passwords of authenticator apps: RFC 6238 with SHA-1, 6 digits, 30 seconds. */

const STEP_MS = 30_000;
const DIGITS = 6;
/** RFC 4648. */
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Returns a random secret in base32, with the 160 bits that RFC 4226 recommends. */
export function newTotpSecret(): string {
  return toBase32(randomBytes(20));
}

/** Returns the number of the time step. */
export function totpStep(nowMs: number): number {
  return Math.floor(nowMs / STEP_MS);
}

export function totpCode(secret: string, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const digest = createHmac('sha1', fromBase32(secret)).update(counter).digest();
  const offset = digest.readUInt8(digest.length - 1) & 0x0f;
  const number = digest.readUInt32BE(offset) & 0x7fff_ffff;
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0');
}

/**
 * Returns the time step of a code. Accepts the previous, the current and the next step, because clocks differ. Null:
 * the code is invalid.
 */
export function matchingStep(secret: string, code: string, nowMs: number): number | null {
  const digits = code.replaceAll(/\s/g, '');
  if (!/^\d{6}$/.test(digits)) return null;
  const current = totpStep(nowMs);
  const steps = [current - 1, current, current + 1];
  return steps.find((step) => equal(totpCode(secret, step), digits)) ?? null;
}

/** Returns the `otpauth:` URI for the QR code. */
export function totpUri(secret: string, issuer: string, email: string): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(email)}`;
  return `otpauth://totp/${label}?secret=${secret}&issuer=${encodeURIComponent(issuer)}`;
}

/** Returns random base32 characters, five bits each. */
function randomBase32(length: number): string {
  return toBase32(randomBytes(Math.ceil((length * 5) / 8))).slice(0, length);
}

const equal = (a: string, b: string): boolean => timingSafeEqual(Buffer.from(a), Buffer.from(b));

function toBase32(bytes: Uint8Array): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return (bits.match(/.{1,5}/g) ?? [])
    .map((five) => BASE32.charAt(Number.parseInt(five.padEnd(5, '0'), 2)))
    .join('');
}

function fromBase32(text: string): Buffer {
  const bits = Array.from(text, (character) => BASE32.indexOf(character).toString(2).padStart(5, '0')).join(
    '',
  );
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}
