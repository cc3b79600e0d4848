import { appendAudit, type Actor } from '../accounts/audit.ts';
import type { Transaction } from '../database/schema.ts';
import { PASSWORD } from './password.ts';
import { removeSecondFactor } from './second-factor.ts';
import { endSessions } from './sessions.ts';

/**
 * Records that a user has proved that their email address is theirs: with a password link (`provider` is `PASSWORD`), or
 * by signing in with a provider that has verified it. If the address was not verified before, someone else may have
 * created the user, because an owner can open the link of an invitation to any address. Therefore everything that this
 * person could sign in with is removed: other credentials, the second factor, sessions and password links.
 */
export async function confirmAddress(
  transaction: Transaction,
  userId: string,
  provider: string,
  by: Actor,
): Promise<void> {
  const { numUpdatedRows } = await transaction
    .updateTable('users')
    .set({ email_verified: 1, updated_at: Date.now() })
    .where('id', '=', userId)
    .where('email_verified', '=', 0)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) return;
  await transaction
    .deleteFrom('credentials')
    .where('user_id', '=', userId)
    .where('provider', '<>', provider)
    .execute();
  await removeSecondFactor(transaction, userId);
  await endSessions(transaction, userId, 'all', by);
  await transaction.deleteFrom('verifications').where('value', '=', userId).execute();
  await appendAudit(transaction, by, {
    action: 'user.confirm_email',
    subject: `user:${userId}`,
    detail: { with: provider === PASSWORD ? 'link' : provider },
  });
}
