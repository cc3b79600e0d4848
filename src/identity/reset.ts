import { appendAudit, type Actor } from '../accounts/audit.ts';
import { ServiceError } from '../errors.ts';
import { countAttempt } from './attempts.ts';
import type { Identity } from './identity.ts';
import { RESET_MS } from './lifetimes.ts';
import { newToken } from './token.ts';
import type { Visit } from './visit.ts';

/**
 * Sends a link to a new password, if somebody has the address. It does not wait for the message, and does as much
 * work where nobody has it. Rejects with a `ServiceError` `not_configured` or `too_many_attempts`.
 */
export async function forgotPassword(identity: Identity, visit: Visit, address: string): Promise<void> {
  if (identity.mailer === null) {
    throw new ServiceError(
      'not_configured',
      'Emails cannot be sent because no mail server is configured. Ask an operator for a password reset link.',
    );
  }
  const email = address.trim().toLowerCase();
  await countAttempt(identity.database, 'forgotPassword', { ip: visit.ip, person: email });
  const auth = await identity.auth();
  // What is no address at all is answered as one that nobody has.
  await auth.api.requestPasswordReset({ body: { email } }).catch(ignoreRefusal);
}

/**
 * Sets a new password with the token of such a link, and ends every session of the person. Rejects with a
 * `ServiceError` `invalid_link` or `too_many_attempts`.
 */
export async function resetPassword(
  identity: Identity,
  visit: Visit,
  { token, password }: { token: string; password: string },
): Promise<void> {
  await countAttempt(identity.database, 'link', visit);
  const auth = await identity.auth();
  try {
    await auth.api.resetPassword({ body: { token, newPassword: password } });
  } catch (error) {
    ignoreRefusal(error);
    throw new ServiceError(
      'invalid_link',
      'This link has expired or was already used. Request a new one under "Forgot password?".',
      { param: 'token' },
    );
  }
}

/** A link to a new password for a person of this id, for an operator to hand on. */
export async function makeResetLink(identity: Identity, personId: string, by: Actor): Promise<string> {
  const { internalAdapter } = await (await identity.auth()).$context;
  const token = newToken();
  await internalAdapter.createVerificationValue({
    identifier: `reset-password:${token}`,
    value: personId,
    expiresAt: new Date(Date.now() + RESET_MS),
  });
  await identity.database.kysely.transaction().execute((transaction) =>
    appendAudit(transaction, by, {
      action: 'person.make_password_link',
      subject: `person:${personId}`,
      accountId: null,
      detail: {},
    }),
  );
  return `${identity.publicUrl()}/reset-password#${token}`;
}

/** better-auth refuses with errors of its own, which say what we answer in our words; others are passed on. */
function ignoreRefusal(error: unknown): void {
  if (!(error instanceof Error) || error.name !== 'APIError') throw error;
}
