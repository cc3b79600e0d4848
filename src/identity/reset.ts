import { recordAudit, type Actor } from '../accounts/audit.ts';
import { ServiceError } from '../core/errors.ts';
import type { Identity } from './identity.ts';
import { RESET_MS, newToken } from './token.ts';
import type { BrowserRequest } from './browser-request.ts';

/**
 * Sends a password reset link if a user with this address exists. Does not wait for the email, and takes the same
 * time for unknown addresses. Rejects with a `ServiceError` `not_configured` or `too_many_attempts`.
 */
export async function forgotPassword(
  identity: Identity,
  request: BrowserRequest,
  address: string,
): Promise<void> {
  if (identity.mailer === null) {
    throw new ServiceError(
      'not_configured',
      'Emails cannot be sent because no mail server is configured. Ask an operator for a password reset link.',
    );
  }
  const email = address.trim().toLowerCase();
  await identity.attempts.count('forgotPassword', { ip: request.ip, user: email });
  const auth = await identity.auth();
  // An invalid address gets the same response as an unknown one.
  await auth.api.requestPasswordReset({ body: { email } }).catch(ignoreRefusal);
}

/**
 * Sets a new password with the token of a reset link, and ends all sessions of the user. Rejects with a
 * `ServiceError` `invalid_link` or `too_many_attempts`.
 */
export async function resetPassword(
  identity: Identity,
  request: BrowserRequest,
  { token, password }: { token: string; password: string },
): Promise<void> {
  await identity.attempts.count('link', request);
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

/** Creates a password reset link for an operator to pass on. */
export async function createResetLink(identity: Identity, userId: string, by: Actor): Promise<string> {
  const { internalAdapter } = await (await identity.auth()).$context;
  const token = newToken();
  await internalAdapter.createVerificationValue({
    identifier: `reset-password:${token}`,
    value: userId,
    expiresAt: new Date(Date.now() + RESET_MS),
  });
  const subject = `user:${userId}`;
  await recordAudit(identity.database, by, { action: 'user.make_password_link', subject });
  return `${identity.publicUrl()}/reset-password#${token}`;
}

/** Rethrows errors other than better-auth's refusals. */
function ignoreRefusal(error: unknown): void {
  if (!(error instanceof Error) || error.name !== 'APIError') throw error;
}
