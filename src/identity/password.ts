import { randomBytes } from 'node:crypto';
import type { Database } from '../database/database.ts';
import type { Transaction } from '../database/schema.ts';

/** Hashes passwords and checks them against their hashes. */
export interface PasswordHasher {
  hash(password: string): Promise<string>;
  verify(hash: string, password: string): Promise<boolean>;
}

/** Salted scrypt of better-auth. Takes about 60 ms in another thread. */
export const SCRYPT: PasswordHasher = {
  async hash(password) {
    const { hashPassword } = await import('better-auth/crypto');
    return await hashPassword(password);
  },
  async verify(hash, password) {
    const { verifyPassword } = await import('better-auth/crypto');
    return await verifyPassword({ hash, password });
  },
};

/** The provider ID that better-auth uses for passwords. */
export const PASSWORD = 'credential';

/** Returns the hash of a user's password; null: none. */
export async function passwordHash({ kysely }: Database, userId: string): Promise<string | null> {
  const row = await kysely
    .selectFrom('credentials')
    .select('password_hash')
    .where('provider', '=', PASSWORD)
    .where('subject', '=', userId)
    .executeTakeFirst();
  return row?.password_hash ?? null;
}

export async function setPassword(transaction: Transaction, userId: string, hash: string): Promise<void> {
  const now = Date.now();
  await transaction
    .insertInto('credentials')
    .values({
      id: `credential_${randomBytes(12).toString('hex')}`,
      user_id: userId,
      provider: PASSWORD,
      subject: userId,
      password_hash: hash,
      created_at: now,
      updated_at: now,
    })
    .onConflict((conflict) =>
      conflict.columns(['provider', 'subject']).doUpdateSet({ password_hash: hash, updated_at: now }),
    )
    .execute();
}

/** Returns how a user can sign in. */
export async function credentialsOf(
  { kysely }: Database,
  userId: string,
): Promise<{ hasPassword: boolean; providers: string[] }> {
  const rows = await kysely
    .selectFrom('credentials')
    .select('provider')
    .where('user_id', '=', userId)
    .orderBy('created_at')
    .orderBy('provider')
    .execute();
  const all = rows.map(({ provider }) => provider);
  return { hasPassword: all.includes(PASSWORD), providers: all.filter((id) => id !== PASSWORD) };
}
