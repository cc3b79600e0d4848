import { randomBytes } from 'node:crypto';
import { appendAudit, type Actor } from '../accounts/audit.ts';
import { checkedName } from '../accounts/bounds.ts';
import type { Database } from '../database/database.ts';
import type { MemberRole, Transaction } from '../database/schema.ts';
import { ServiceError } from '../core/errors.ts';
import type { Identity } from './identity.ts';
import { addInvitedMember, createInvitation, INVITATION_COLUMNS, type InvitationRow } from './invitations.ts';
import { invitationEmail } from './mailer.ts';
import { setPassword } from './password.ts';
import { hashToken } from './token.ts';
import { userActor, type BrowserRequest } from './browser-request.ts';

/**
 * Creates an invitation and sends it by email if SMTP is configured. Rejects like `createInvitation`, and with
 * `too_many_attempts`.
 */
export async function invite(
  identity: Identity,
  values: { accountId: string; email: string; role: MemberRole },
  by: Actor,
): Promise<{ record: InvitationRow; link: string; mailed: boolean }> {
  await identity.attempts.count('invite', { user: by.id });
  const { record, accountName, token } = await createInvitation(identity.database, values, by);
  const link = `${identity.publicUrl()}/invitation#${token}`;
  identity.mailer?.send(invitationEmail(record, accountName, link));
  return { record, link, mailed: identity.mailer !== null };
}

/** An invitation, and what is required to accept it. */
export interface OpenInvitation {
  record: InvitationRow;
  accountName: string;
  /** The user with the invited address; null: none. */
  userId: string | null;
  /** Whether that user must sign in to accept. */
  mustSignIn: boolean;
  /** Whether an operator sent the invitation, so that the address counts as verified. */
  byOperator: boolean;
}

/** Reads an invitation by its token. Rejects with a `ServiceError` `invalid_link` or `too_many_attempts`. */
export async function readInvitation(
  { database, attempts }: Identity,
  request: BrowserRequest,
  token: string,
): Promise<OpenInvitation> {
  await attempts.count('link', request);
  const row = await database.kysely
    .selectFrom('invitations')
    .innerJoin('accounts', 'accounts.id', 'invitations.account_id')
    .leftJoin('users', 'users.email', 'invitations.email')
    .select(INVITATION_COLUMNS)
    .select(['accounts.name as account_name', 'users.id as user_id'])
    .where('token_hash', '=', hashToken(token))
    .where('expires_at', '>', Date.now())
    .where('accounts.status', '<>', 'closed')
    .executeTakeFirst();
  if (row === undefined) throw invalidInvitation();
  const { account_name: accountName, user_id: userId, ...record } = row;
  const byOperator = await isFromOperator(database, record.invited_by);
  // An operator can create a user who cannot sign in yet. An invitation from an operator lets that user set a
  // password; an invitation from an owner does not.
  const mustSignIn = userId !== null && (!byOperator || (await canSignIn(database, userId)));
  return { record, accountName, userId, mustSignIn, byOperator };
}

/**
 * Accepts an invitation for the signed-in user, or creates the user and signs them in. Rejects with a `ServiceError`
 * `invalid_link`, `sign_in_required` if the invited user must sign in first, `missing_required_parameter`
 * (param `name` or `password`), `invalid_value` or `too_many_attempts`.
 */
export async function acceptInvitation(
  identity: Identity,
  request: BrowserRequest,
  values: { token: string; name?: string | undefined; password?: string | undefined },
): Promise<{ accountId: string; cookies: string[] }> {
  const { database } = identity;
  const invitation = await readInvitation(identity, request, values.token);
  const { account_id: accountId } = invitation.record;
  if (invitation.mustSignIn) {
    const session = await identity.session(request);
    if (session === null || session.user.id !== invitation.userId) {
      throw new ServiceError(
        'sign_in_required',
        `Sign in as ${invitation.record.email} to accept this invitation.`,
      );
    }
    const by = userActor(session.user.id, request);
    await database.kysely.transaction().execute(async (transaction) => {
      await consumeInvitation(transaction, invitation.record);
      await addInvitedMember(transaction, invitation.record, session.user.id, by);
    });
    return { accountId, cookies: [] };
  }
  const name = checkedName(required(values.name, 'name'), 'user');
  const hash = await identity.passwords.hash(required(values.password, 'password'));
  const userId = invitation.userId ?? `user_${randomBytes(12).toString('hex')}`;
  const by = userActor(userId, request);
  await database.kysely.transaction().execute(async (transaction) => {
    await consumeInvitation(transaction, invitation.record);
    const now = Date.now();
    await transaction
      .insertInto('users')
      .values({
        id: userId,
        name,
        email: invitation.record.email,
        // An owner's link does not verify the address, because the owner could have opened it.
        email_verified: invitation.byOperator ? 1 : 0,
        created_at: now,
        updated_at: now,
      })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ name, updated_at: now }))
      .execute();
    await setPassword(transaction, userId, hash);
    const entry = { action: 'user.create', subject: by.id } as const;
    if (invitation.userId === null) await appendAudit(transaction, by, entry);
    await addInvitedMember(transaction, invitation.record, userId, by);
  });
  return { accountId, cookies: await identity.startSession(request, userId) };
}

/** Deletes the invitation. Rejects with `invalid_link` if another request has accepted it. */
async function consumeInvitation(transaction: Transaction, { id }: InvitationRow): Promise<void> {
  const { numDeletedRows } = await transaction
    .deleteFrom('invitations')
    .where('id', '=', id)
    .executeTakeFirst();
  if (numDeletedRows === 0n) throw invalidInvitation();
}

/** Whether an actor is an operator: the command line, an `admin` key, or a user with the operator role. */
async function isFromOperator({ kysely }: Database, invitedBy: string): Promise<boolean> {
  const [kind, id = ''] = invitedBy.split(':');
  if (kind !== 'user') return true;
  const row = await kysely
    .selectFrom('users')
    .select('id')
    .where('id', '=', id)
    .where('operator', '=', 1)
    .executeTakeFirst();
  return row !== undefined;
}

async function canSignIn({ kysely }: Database, userId: string): Promise<boolean> {
  const row = await kysely
    .selectFrom('credentials')
    .select('id')
    .where('user_id', '=', userId)
    .executeTakeFirst();
  return row !== undefined;
}

function required(value: string | undefined, param: string): string {
  if (value !== undefined) return value;
  throw new ServiceError('missing_required_parameter', `\`${param}\` is required.`, { param });
}

function invalidInvitation(): ServiceError {
  return new ServiceError(
    'invalid_link',
    'This invitation has expired, or was already accepted, withdrawn or replaced. Ask for a new one.',
    { param: 'token' },
  );
}
