import type { AuditAction } from '../accounts/audit-actions.ts';
import { appendAudit, type Actor } from '../accounts/audit.ts';
import { checkedName } from '../accounts/bounds.ts';
import { deleteUser } from '../accounts/users.ts';
import type { Database } from '../database/database.ts';
import type { Transaction } from '../database/schema.ts';
import { ServiceError } from '../core/errors.ts';
import type { Identity } from './identity.ts';
import { FRESH_MS } from './token.ts';
import { passwordHash, setPassword } from './password.ts';
import {
  beginSecondFactor,
  createRecoveryCodes,
  removeSecondFactor,
  consumeTotp,
  type NewSecondFactor,
} from './second-factor.ts';
import { endSessions } from './sessions.ts';
import type { UserSession } from './sessions.ts';
import { assertSharedKeys } from './stored-secrets.ts';
import { userActor, type BrowserRequest } from './browser-request.ts';

/** A change that a signed-in user makes to their own user. */
interface OwnChange {
  identity: Identity;
  request: BrowserRequest;
  session: UserSession;
}

/** Changes the user's name. Rejects with a `ServiceError` `invalid_value` (param `name`). */
export async function rename(change: OwnChange, name: string): Promise<string> {
  const checked = checkedName(name, 'user');
  await withAudit(change, 'user.rename', async (transaction, id) => {
    await transaction
      .updateTable('users')
      .set({ name: checked, updated_at: Date.now() })
      .where('id', '=', id)
      .execute();
  });
  return checked;
}

/** Sets a new password, ends all sessions, starts a new one and returns its cookies. Rejects like `confirm`. */
export async function changePassword(
  change: OwnChange,
  { current, next }: { current: string | undefined; next: string },
): Promise<string[]> {
  const { identity, request, session } = change;
  await confirm(change, current, 'current_password');
  const hash = await identity.passwords.hash(next);
  await withAudit(change, 'user.change_password', async (transaction, id, by) => {
    await setPassword(transaction, id, hash);
    await endSessions(transaction, id, 'all', by);
    // Revokes password reset links.
    await transaction.deleteFrom('verifications').where('value', '=', id).execute();
  });
  return await identity.startSession(request, session.user.id);
}

/** Deletes the user. Rejects like `confirm`, and with `last_operator`. */
export async function deleteMe(change: OwnChange, password: string | undefined): Promise<void> {
  const { identity, request, session } = change;
  await confirm(change, password);
  await deleteUser(identity.database, session.user.id, userActor(session.user.id, request));
}

/**
 * Creates a second factor, which must be confirmed. Rejects like `confirm`, and with `conflict` or `not_configured`.
 */
export async function beginTwoFactor(
  change: OwnChange,
  password: string | undefined,
): Promise<NewSecondFactor> {
  await confirm(change, password);
  const { database, secretKeys } = change.identity;
  await assertSharedKeys(database, secretKeys);
  const created = await beginSecondFactor(database, secretKeys, change.session.user);
  if (created !== null) return created;
  throw new ServiceError('conflict', 'Two-factor authentication is already enabled. Disable it first.');
}

/** Enables the second factor and ends all other sessions. Rejects with `wrong_credentials` or `too_many_attempts`. */
export async function confirmTwoFactor(change: OwnChange, code: string): Promise<void> {
  const { identity, session } = change;
  await identity.attempts.count('secondFactor', { ip: change.request.ip, user: session.user.id });
  await withAudit(change, 'user.begin_two_factor', async (transaction, id, by) => {
    if (!(await consumeTotp({ kysely: transaction }, identity.secretKeys, id, code, false))) {
      throw new ServiceError('wrong_credentials', 'This code is incorrect or was already used.', {
        param: 'code',
      });
    }
    await transaction
      .updateTable('users')
      .set({ two_factor: 1, updated_at: Date.now() })
      .where('id', '=', id)
      .execute();
    await endSessions(transaction, id, { except: session.id }, by);
  });
}

/** Removes the second factor. Rejects like `confirm`. */
export async function endTwoFactor(change: OwnChange, password: string | undefined): Promise<void> {
  await confirm(change, password);
  await withAudit(change, 'user.end_two_factor', (transaction, id) => removeSecondFactor(transaction, id));
}

/** Removes the second factor of a user who has lost it, ends their sessions, and returns whether there was one. */
export async function resetSecondFactor(database: Database, userId: string, by: Actor): Promise<boolean> {
  return await database.kysely.transaction().execute(async (transaction) => {
    if (!(await removeSecondFactor(transaction, userId))) return false;
    await endSessions(transaction, userId, 'all', by);
    const subject = `user:${userId}`;
    await appendAudit(transaction, by, { action: 'user.end_two_factor', subject });
    return true;
  });
}

/** Replaces the recovery codes. Rejects like `confirm`, and with `conflict` if there is no second factor. */
export async function renewRecoveryCodes(change: OwnChange, password: string | undefined): Promise<string[]> {
  await confirm(change, password);
  if (!change.session.user.twoFactor) {
    throw new ServiceError(
      'conflict',
      'Two-factor authentication is not enabled, so there are no recovery codes.',
    );
  }
  return await withAudit(change, 'user.renew_recovery_codes', (transaction, id) =>
    createRecoveryCodes(transaction, id),
  );
}

/** Ends the session `id`, or all sessions other than `except`. Rejects with a `ServiceError` `not_found`. */
export async function endOwnSessions(
  change: OwnChange,
  which: { id: string } | { except: string },
): Promise<void> {
  await withAudit(change, 'user.end_sessions', async (transaction, id, by) => {
    const ended = await endSessions(transaction, id, which, by);
    if (!ended && 'id' in which) {
      throw new ServiceError('not_found', 'This session does not exist.', { param: 'id' });
    }
  });
}

/**
 * Confirms a change by the password or, for users without one, by a recent sign-in. Rejects with a `ServiceError`
 * `wrong_credentials`, `fresh_sign_in_required` or `too_many_attempts`.
 */
async function confirm(
  { identity, session }: OwnChange,
  password: string | undefined,
  param = 'password',
): Promise<void> {
  const { database, attempts } = identity;
  const hash = await passwordHash(database, session.user.id);
  if (hash === null) {
    if (session.signedInAt > Date.now() - FRESH_MS) return;
    throw new ServiceError('fresh_sign_in_required', 'Sign in again to confirm this change.');
  }
  const source = { user: session.user.id };
  await attempts.count('confirm', source);
  if (password !== undefined && (await identity.passwords.verify(hash, password))) {
    await attempts.reset('confirm', source);
    return;
  }
  throw new ServiceError('wrong_credentials', 'Incorrect password.', { param });
}

/** Changes the user and appends the change to the audit log, in one transaction. */
async function withAudit<T>(
  { identity, request, session }: OwnChange,
  action: AuditAction,
  work: (transaction: Transaction, userId: string, by: Actor) => Promise<T>,
): Promise<T> {
  const by = userActor(session.user.id, request);
  return await identity.database.kysely.transaction().execute(async (transaction) => {
    const result = await work(transaction, session.user.id, by);
    await appendAudit(transaction, by, { action, subject: by.id });
    return result;
  });
}
