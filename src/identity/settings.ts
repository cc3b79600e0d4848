import { appendAudit, type Actor, type AuditAction } from '../accounts/audit.ts';
import { checkedName } from '../accounts/name.ts';
import { deletePerson } from '../accounts/people.ts';
import type { Database } from '../database/database.ts';
import { ServiceError } from '../errors.ts';
import { countAttempt, forgetAttempts } from './attempts.ts';
import type { Identity } from './identity.ts';
import { FRESH_MS } from './lifetimes.ts';
import { passwordHash, setPassword } from './password.ts';
import {
  beginSecondFactor,
  newRecoveryCodes,
  removeSecondFactor,
  takeTotp,
  type NewSecondFactor,
} from './second-factor.ts';
import { endSessions } from './sessions.ts';
import type { SignedIn } from './signed-in.ts';
import { personActor, type Visit } from './visit.ts';

/** Somebody who is signed in changes something of their own. */
interface Change {
  identity: Identity;
  visit: Visit;
  me: SignedIn;
}

/** Changes the name. Rejects with a `ServiceError` `invalid_value` (param `name`). */
export async function rename(change: Change, name: string): Promise<string> {
  const wanted = checkedName(name, 'person');
  await noting(change, 'person.rename', async (transaction, id) => {
    await transaction
      .updateTable('people')
      .set({ name: wanted, updated_at: Date.now() })
      .where('id', '=', id)
      .execute();
  });
  return wanted;
}

/**
 * Sets a new password, ends every session, and begins this one anew: the cookies to set. Rejects as `confirm` does.
 */
export async function changePassword(
  change: Change,
  { current, wanted }: { current: string | undefined; wanted: string },
): Promise<string[]> {
  const { identity, visit, me } = change;
  await confirm(change, current, 'current_password');
  const hash = await identity.passwords.hash(wanted);
  await noting(change, 'person.change_password', async (transaction, id) => {
    await setPassword(transaction, id, hash);
    await endSessions({ kysely: transaction }, id, 'all');
    // Links to a new password that were sent before are void.
    await transaction.deleteFrom('verifications').where('value', '=', id).execute();
  });
  return await identity.startSession(visit, me.person.id);
}

/** Forgets the person. Rejects as `confirm` does, and with `last_operator`. */
export async function deleteMe(change: Change, password: string | undefined): Promise<void> {
  const { identity, visit, me } = change;
  await confirm(change, password);
  await deletePerson(identity.database, me.person.id, personActor(me.person.id, visit));
}

/** Makes a second factor that is still to be confirmed. Rejects as `confirm` does, and with `conflict`. */
export async function beginTwoFactor(change: Change, password: string | undefined): Promise<NewSecondFactor> {
  await confirm(change, password);
  const made = await beginSecondFactor(change.identity.database, change.me.person);
  if (made !== null) return made;
  throw new ServiceError('conflict', 'Two-factor authentication is already enabled. Disable it first.');
}

/** Makes it count, and ends all other sessions. Rejects with `wrong_credentials` or `too_many_attempts`. */
export async function confirmTwoFactor(change: Change, code: string): Promise<void> {
  const { identity, me } = change;
  await countAttempt(identity.database, 'secondFactor', { ip: change.visit.ip, person: me.person.id });
  await noting(change, 'person.begin_two_factor', async (transaction, id) => {
    if (!(await takeTotp({ kysely: transaction }, id, code, false))) {
      throw new ServiceError('wrong_credentials', 'This code is incorrect or was already used.', {
        param: 'code',
      });
    }
    await transaction
      .updateTable('people')
      .set({ two_factor: 1, updated_at: Date.now() })
      .where('id', '=', id)
      .execute();
    await endSessions({ kysely: transaction }, id, { but: me.sessionId });
  });
}

/** Takes the second factor away. Rejects as `confirm` does. */
export async function endTwoFactor(change: Change, password: string | undefined): Promise<void> {
  await confirm(change, password);
  await noting(change, 'person.end_two_factor', (transaction, id) => removeSecondFactor(transaction, id));
}

/** Takes the second factor of somebody who has lost it, and ends their sessions. Whether they had one. */
export async function resetSecondFactor(database: Database, personId: string, by: Actor): Promise<boolean> {
  return await database.kysely.transaction().execute(async (transaction) => {
    if (!(await removeSecondFactor(transaction, personId))) return false;
    await endSessions({ kysely: transaction }, personId, 'all');
    const subject = `person:${personId}`;
    await appendAudit(transaction, by, {
      action: 'person.end_two_factor',
      subject,
      accountId: null,
      detail: {},
    });
    return true;
  });
}

/** Makes new recovery codes. Rejects as `confirm` does, and with `conflict` where there is no second factor. */
export async function renewRecoveryCodes(change: Change, password: string | undefined): Promise<string[]> {
  await confirm(change, password);
  if (!change.me.person.twoFactor) {
    throw new ServiceError(
      'conflict',
      'Two-factor authentication is not enabled, so there are no recovery codes.',
    );
  }
  return await noting(change, 'person.renew_recovery_codes', (transaction, id) =>
    newRecoveryCodes(transaction, id),
  );
}

/** Ends one session, or all others. Rejects with a `ServiceError` `not_found`. */
export async function endMySessions(change: Change, which: { id: string } | { but: string }): Promise<void> {
  await noting(change, 'person.end_sessions', async (transaction, id) => {
    const ended = await endSessions({ kysely: transaction }, id, which);
    if (!ended && 'id' in which) {
      throw new ServiceError('not_found', 'This session does not exist.', { param: 'id' });
    }
  });
}

/**
 * Sees that it is the person who asks, and not somebody before their open screen: by the password or, of those who
 * have none, by a sign-in that is not old. Rejects with a `ServiceError` `wrong_credentials`,
 * `fresh_sign_in_required` or `too_many_attempts`.
 */
async function confirm(
  { identity, me }: Change,
  password: string | undefined,
  param = 'password',
): Promise<void> {
  const { database } = identity;
  const hash = await passwordHash(database, me.person.id);
  if (hash === null) {
    if (me.since > Date.now() - FRESH_MS) return;
    throw new ServiceError('fresh_sign_in_required', 'Sign in again to confirm this change.');
  }
  const by = { person: me.person.id };
  await countAttempt(database, 'confirm', by);
  if (password !== undefined && (await identity.passwords.verify(hash, password))) {
    await forgetAttempts(database, 'confirm', by);
    return;
  }
  throw new ServiceError('wrong_credentials', 'Incorrect password.', { param });
}

type Transaction = Parameters<typeof appendAudit>[0];

/** Does something to the person and writes it down, both or neither. */
async function noting<T>(
  { identity, visit, me }: Change,
  action: AuditAction,
  work: (transaction: Transaction, personId: string) => Promise<T>,
): Promise<T> {
  const by = personActor(me.person.id, visit);
  return await identity.database.kysely.transaction().execute(async (transaction) => {
    const result = await work(transaction, me.person.id);
    await appendAudit(transaction, by, { action, subject: by.id, accountId: null, detail: {} });
    return result;
  });
}
