import type { Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import { appendAudit, type Actor } from './audit.ts';
import { revokeOrphanedPlaygroundKeys } from './key-table.ts';

/** Whether the service has an operator. */
export async function hasOperator({ kysely }: Pick<Database, 'kysely'>): Promise<boolean> {
  const row = await kysely.selectFrom('users').select('id').where('operator', '=', 1).executeTakeFirst();
  return row !== undefined;
}

/**
 * Grants or revokes operator rights. Idempotent. Rejects with a `ServiceError` `not_found`, `last_operator`, or
 * `email_not_verified` if the user has not confirmed their address, unless `allowUnverified` is true: an owner of any
 * account could have invited the address and chosen the password.
 */
export async function setOperator(
  database: Database,
  userId: string,
  { operator, allowUnverified = false }: { operator: boolean; allowUnverified?: boolean | undefined },
  by: Actor,
): Promise<void> {
  await database.kysely.transaction().execute(async (transaction) => {
    if (!operator) await refuseLastOperator(database, transaction, userId);
    const wanted = operator ? 1 : 0;
    const changed = await transaction
      .updateTable('users')
      .set({ operator: wanted, updated_at: Date.now() })
      .where('id', '=', userId)
      .where('operator', '<>', wanted)
      .returning('email_verified')
      .executeTakeFirst();
    if (changed === undefined) {
      const known = await transaction.selectFrom('users').select('id').where('id', '=', userId).execute();
      if (known.length > 0) return;
      throw new ServiceError('not_found', 'This user does not exist.', { param: 'id' });
    }
    if (operator && changed.email_verified === 0 && !allowUnverified) throw emailNotVerified();
    if (!operator) await revokeOrphanedPlaygroundKeys(database, transaction, `user:${userId}`, by);
    await appendAudit(transaction, by, {
      action: operator ? 'user.make_operator' : 'user.unmake_operator',
      subject: `user:${userId}`,
    });
  });
}

function emailNotVerified(): ServiceError {
  return new ServiceError(
    'email_not_verified',
    'This user has not confirmed their email address, so it may belong to someone else. Ask them to reset their password or to sign in with a provider, or allow it with `allow_unverified` (`--allow-unverified`).',
    { param: 'allow_unverified' },
  );
}

/** Rejects with a `ServiceError` `last_operator` if the user is the only operator. */
export async function refuseLastOperator(
  { location }: Database,
  transaction: Transaction<Schema>,
  userId: string,
): Promise<void> {
  const operators = await transaction
    .selectFrom('users')
    .select('id')
    .where('operator', '=', 1)
    .orderBy('id')
    // Locks the rows, so that the second of two concurrent removals waits and sees that only one operator is left.
    .$if(location.kind === 'postgres', (query) => query.forUpdate())
    .execute();
  if (operators.length !== 1 || operators[0]?.id !== userId) return;
  throw new ServiceError(
    'last_operator',
    'The last operator cannot be removed. Make another user an operator first.',
  );
}
