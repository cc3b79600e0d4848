import { randomBytes } from 'node:crypto';
import type { Selectable } from 'kysely';
import { lockAccount } from '../accounts/accounts.ts';
import { appendAudit, type Actor } from '../accounts/audit.ts';
import { MAX_MEMBERSHIPS } from '../accounts/bounds.ts';
import { readPage, type Page, type PageQuery } from '../accounts/page.ts';
import { checkedEmail, refuseOneAccountTooMany } from '../accounts/users.ts';
import type { Database } from '../database/database.ts';
import type { MemberRole, Schema, Transaction } from '../database/schema.ts';
import { ServiceError } from '../core/errors.ts';
import { INVITATION_MS, hashToken, newToken } from './token.ts';

/** The columns of an invitation that leave `identity/`: all but the hash of its token. */
export const INVITATION_COLUMNS = [
  'invitations.id',
  'invitations.account_id',
  'invitations.email',
  'invitations.role',
  'invitations.invited_by',
  'invitations.created_at',
  'invitations.expires_at',
] as const;

/** A pending invitation to an account. */
export type InvitationRow = Omit<Selectable<Schema['invitations']>, 'token_hash'>;

/**
 * Invites a user to an account. Replaces the user's previous invitation to it. The returned token of the link is not
 * stored. Rejects with a `ServiceError` `not_found`, `conflict` (param `account_id` if the account is closed, `email`
 * if the user is a member already) or `invalid_value` (param `email`).
 */
export async function createInvitation(
  database: Database,
  values: { accountId: string; email: string; role: MemberRole },
  by: Actor,
): Promise<{ record: InvitationRow; accountName: string; token: string }> {
  const email = checkedEmail(values.email);
  const token = newToken();
  const now = Date.now();
  const row: InvitationRow = {
    id: `invitation_${randomBytes(12).toString('hex')}`,
    account_id: values.accountId,
    email,
    role: values.role,
    invited_by: by.id,
    created_at: now,
    expires_at: now + INVITATION_MS,
  };
  return await database.kysely.transaction().execute(async (transaction) => {
    // Also makes concurrent invitations of the same address replace each other.
    const account = await lockAccount(transaction, values.accountId);
    if (account.status === 'closed') {
      throw new ServiceError('conflict', 'The account is closed.', { param: 'account_id' });
    }
    await transaction
      .deleteFrom('invitations')
      .where('account_id', '=', account.id)
      .where('email', '=', email)
      .execute();
    const member = await transaction
      .selectFrom('memberships')
      .innerJoin('users', 'users.id', 'memberships.user_id')
      .select('users.id')
      .where('users.email', '=', email)
      .where('account_id', '=', account.id)
      .executeTakeFirst();
    if (member !== undefined) {
      throw new ServiceError(
        'conflict',
        'A user with this email address is already a member of the account.',
        {
          param: 'email',
        },
      );
    }
    await transaction
      .insertInto('invitations')
      .values({ ...row, token_hash: hashToken(token) })
      .execute();
    await appendAudit(transaction, by, {
      action: 'invitation.create',
      subject: `invitation:${row.id}`,
      accountId: account.id,
      detail: { role: values.role },
    });
    return { record: row, accountName: account.name, token };
  });
}

/** Returns a page of pending invitations, oldest first. `accountId` null: of all accounts. */
export async function listInvitations(
  { kysely }: Database,
  accountId: string | null,
  page: PageQuery,
): Promise<Page<InvitationRow>> {
  let rows = kysely.selectFrom('invitations').select(INVITATION_COLUMNS);
  if (accountId !== null) rows = rows.where('account_id', '=', accountId);
  return await readPage(rows, page);
}

/** Returns the account ID of an invitation. Rejects with a `ServiceError` `not_found`. */
export async function accountOfInvitation({ kysely }: Database, id: string): Promise<string> {
  const row = await kysely
    .selectFrom('invitations')
    .select('account_id')
    .where('id', '=', id)
    .executeTakeFirst();
  if (row === undefined) throw noSuchInvitation();
  return row.account_id;
}

/** Withdraws an invitation. Rejects with a `ServiceError` `not_found`. */
export async function withdrawInvitation(database: Database, id: string, by: Actor): Promise<void> {
  await database.kysely.transaction().execute(async (transaction) => {
    const row = await transaction
      .deleteFrom('invitations')
      .where('id', '=', id)
      .returning('account_id')
      .executeTakeFirst();
    if (row === undefined) throw noSuchInvitation();
    await appendAudit(transaction, by, {
      action: 'invitation.withdraw',
      subject: `invitation:${id}`,
      accountId: row.account_id,
    });
  });
}

export function noSuchInvitation(): ServiceError {
  return new ServiceError('not_found', 'This invitation does not exist.', { param: 'id' });
}

/**
 * Makes a user a member of the account of an accepted invitation. Owners remain owners. Rejects with `conflict` if the
 * user is a member of too many accounts.
 */
export async function addInvitedMember(
  transaction: Transaction,
  { id, account_id: accountId, role }: Pick<InvitationRow, 'id' | 'account_id' | 'role'>,
  userId: string,
  by: Actor,
): Promise<void> {
  await refuseOneAccountTooMany(transaction, accountId, userId);
  await transaction
    .insertInto('memberships')
    .values({ account_id: accountId, user_id: userId, role, created_at: Date.now() })
    .onConflict((conflict) =>
      conflict
        .columns(['account_id', 'user_id'])
        .doUpdateSet({ role })
        .where('memberships.role', '=', 'member'),
    )
    .execute();
  await appendAudit(transaction, by, {
    action: 'invitation.accept',
    subject: `invitation:${id}`,
    accountId,
    detail: { user: userId, role },
  });
}

/** Accepts the invitations to the verified address of a new user, and returns whether there were any. */
export async function acceptAllInvitations(
  transaction: Transaction,
  user: { id: string; email: string },
  by: Actor,
): Promise<boolean> {
  const rows = await transaction
    .deleteFrom('invitations')
    .where('email', '=', user.email)
    .where('expires_at', '>', Date.now())
    .returning(['id', 'account_id', 'role'])
    .execute();
  for (const row of rows.slice(0, MAX_MEMBERSHIPS)) await addInvitedMember(transaction, row, user.id, by);
  return rows.length > 0;
}
