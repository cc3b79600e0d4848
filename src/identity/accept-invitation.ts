import { randomBytes } from 'node:crypto';
import type { Transaction } from 'kysely';
import { appendAudit, type Actor } from '../accounts/audit.ts';
import { checkedName } from '../accounts/name.ts';
import type { Database } from '../database/database.ts';
import type { MemberRole, Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import { countAttempt } from './attempts.ts';
import type { Identity } from './identity.ts';
import { createInvitation, join, toRecord, type InvitationRecord } from './invitations.ts';
import { invitationMessage } from './messages.ts';
import { setPassword } from './password.ts';
import { hashToken } from './token.ts';
import { personActor, type Visit } from './visit.ts';

/** Invites somebody, and writes to them where there is a mail server. Rejects as `createInvitation` does. */
export async function invite(
  identity: Identity,
  wanted: { accountId: string; email: string; role: MemberRole },
  by: Actor,
): Promise<{ record: InvitationRecord; link: string; mailed: boolean }> {
  await countAttempt(identity.database, 'invite', { person: by.id });
  const { record, accountName, token } = await createInvitation(identity.database, wanted, by);
  const link = `${identity.publicUrl()}/invitation#${token}`;
  identity.mailer?.send(invitationMessage({ ...record, accountName }, link));
  return { record, link, mailed: identity.mailer !== null };
}

/** What an invitation is to, for whoever has its link. */
export interface OpenInvitation {
  record: InvitationRecord;
  accountName: string;
  /** The person who has the address; null: nobody. */
  personId: string | null;
  /** That person has to sign in before they accept. */
  known: boolean;
  /** An operator has invited, and vouches for the address. */
  vouched: boolean;
}

/** Reads an invitation by its token. Rejects with a `ServiceError` `invalid_link` or `too_many_attempts`. */
export async function lookAtInvitation(
  { database }: Identity,
  visit: Visit,
  token: string,
): Promise<OpenInvitation> {
  await countAttempt(database, 'link', visit);
  const row = await database.kysely
    .selectFrom('invitations')
    .innerJoin('accounts', 'accounts.id', 'invitations.account_id')
    .leftJoin('people', 'people.email', 'invitations.email')
    .selectAll('invitations')
    .select(['accounts.name as account_name', 'people.id as person_id'])
    .where('token_hash', '=', hashToken(token))
    .where('expires_at', '>', Date.now())
    .where('accounts.status', '<>', 'closed')
    .executeTakeFirst();
  if (row === undefined) throw invalidInvitation();
  const vouched = await isVouchedFor(database, row.invited_by);
  // Somebody whom an operator has made and who can not sign in yet begins by the link of an operator, and no other.
  const known = row.person_id !== null && (!vouched || (await canSignIn(database, row.person_id)));
  return {
    record: toRecord(row),
    accountName: row.account_name,
    personId: row.person_id,
    known,
    vouched,
  };
}

/**
 * Accepts an invitation: by the person who has the address and is signed in, or by somebody new, whom it makes a
 * person and signs in. Rejects with a `ServiceError` `invalid_link`, `sign_in_required` where somebody else has to be
 * signed in, `missing_required_parameter` (param `name` or `password`), `invalid_value` or `too_many_attempts`.
 */
export async function acceptInvitation(
  identity: Identity,
  visit: Visit,
  wanted: { token: string; name?: string | undefined; password?: string | undefined },
): Promise<{ accountId: string; cookies: string[] }> {
  const { database } = identity;
  const invitation = await lookAtInvitation(identity, visit, wanted.token);
  const { accountId } = invitation.record;
  if (invitation.known) {
    const me = await identity.signedIn(visit);
    if (me === null || me.person.id !== invitation.personId) {
      throw new ServiceError(
        'sign_in_required',
        `Sign in as ${invitation.record.email} to accept this invitation.`,
      );
    }
    const by = personActor(me.person.id, visit);
    await database.kysely.transaction().execute(async (transaction) => {
      await useUp(transaction, invitation.record);
      await join(transaction, invitation.record, me.person.id, by);
    });
    return { accountId, cookies: [] };
  }
  const name = checkedName(given(wanted.name, 'name'), 'person');
  const hash = await identity.passwords.hash(given(wanted.password, 'password'));
  const personId = invitation.personId ?? `person_${randomBytes(12).toString('hex')}`;
  const by = personActor(personId, visit);
  await database.kysely.transaction().execute(async (transaction) => {
    await useUp(transaction, invitation.record);
    const now = Date.now();
    await transaction
      .insertInto('people')
      .values({
        id: personId,
        name,
        email: invitation.record.email,
        // A link that an owner of an account has handed on proves nothing: he could have kept it.
        email_verified: invitation.vouched ? 1 : 0,
        created_at: now,
        updated_at: now,
      })
      .onConflict((conflict) => conflict.column('id').doUpdateSet({ name, updated_at: now }))
      .execute();
    await setPassword(transaction, personId, hash);
    const note = { action: 'person.create', subject: by.id, accountId: null, detail: {} } as const;
    if (invitation.personId === null) await appendAudit(transaction, by, note);
    await join(transaction, invitation.record, personId, by);
  });
  return { accountId, cookies: await identity.startSession(visit, personId) };
}

/** Takes the invitation away, for one alone: of two that accept at once, the second finds it gone. */
async function useUp(transaction: Transaction<Schema>, { id }: InvitationRecord): Promise<void> {
  const { numDeletedRows } = await transaction
    .deleteFrom('invitations')
    .where('id', '=', id)
    .executeTakeFirst();
  if (numDeletedRows === 0n) throw invalidInvitation();
}

/** Whether those who invite are operators: the command line, an admin's key, or a person with the flag. */
async function isVouchedFor({ kysely }: Database, invitedBy: string): Promise<boolean> {
  const [kind, id = ''] = invitedBy.split(':');
  if (kind !== 'person') return true;
  const row = await kysely
    .selectFrom('people')
    .select('id')
    .where('id', '=', id)
    .where('operator', '=', 1)
    .executeTakeFirst();
  return row !== undefined;
}

async function canSignIn({ kysely }: Database, personId: string): Promise<boolean> {
  const row = await kysely
    .selectFrom('credentials')
    .select('id')
    .where('person_id', '=', personId)
    .executeTakeFirst();
  return row !== undefined;
}

function given(value: string | undefined, param: string): string {
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
