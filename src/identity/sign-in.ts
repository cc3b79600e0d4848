import { recordAudit, type Actor } from '../accounts/audit.ts';
import { ServiceError } from '../errors.ts';
import type { Identity } from './identity.ts';
import { consumeRecoveryCode, consumeTotp } from './second-factor.ts';
import { endPresentedSession, sessionToken } from './sessions.ts';
import { authHeaders, userActor, type BrowserRequest } from './browser-request.ts';

/** `second_factor`: a second factor is required to complete the sign-in. */
export interface SignInResult {
  status: 'signed_in' | 'second_factor';
  /** To set in the browser. */
  cookies: string[];
}

/**
 * Signs in with a password. Unknown addresses get the same response as a wrong password, after the same time. Rejects
 * with a `ServiceError` `wrong_credentials` or `too_many_attempts`.
 */
export async function signIn(
  identity: Identity,
  request: BrowserRequest,
  credentials: { email: string; password: string },
): Promise<SignInResult> {
  const { database, attempts } = identity;
  const email = credentials.email.trim().toLowerCase();
  const source = { ip: request.ip, user: email };
  await attempts.count('signIn', source);
  const auth = await identity.auth();
  const result = await auth.api
    .signInEmail({
      body: { email, password: credentials.password },
      headers: authHeaders(request),
      returnHeaders: true,
    })
    .catch((error: unknown) => {
      // Compares the name, because better-auth's class may not be loaded here.
      if (error instanceof Error && error.name === 'APIError') return null;
      throw error;
    });
  if (result === null) throw wrongCredentials('password', 'Incorrect email or password.');
  await endPresentedSession(database, request.headers, identity.cookieName);
  await attempts.reset('signIn', source);
  return await finishFirstFactor(
    identity,
    request,
    result.headers.getSetCookie(),
    result.response.user.id,
    'password',
  );
}

/**
 * Completes a sign-in with a code of the authenticator app or a recovery code, each of which works once, and returns
 * the cookies of a new session. Rejects with a `ServiceError` `sign_in_required` if no sign-in started within the last
 * 10 minutes, `wrong_credentials` or `too_many_attempts`.
 */
export async function signInSecondFactor(
  identity: Identity,
  request: BrowserRequest,
  { code, kind }: { code: string; kind: 'totp' | 'recovery' },
): Promise<string[]> {
  const { database, attempts } = identity;
  const presented = await identity.presentedSession(request);
  if (!presented?.pending) {
    throw new ServiceError('sign_in_required', 'This sign-in has expired. Start again with your password.');
  }
  const userId = presented.session.user.id;
  const source = { ip: request.ip, user: userId };
  await attempts.count('secondFactor', source);
  const valid =
    kind === 'totp'
      ? await consumeTotp(database, identity.secretKeys, userId, code, true)
      : await consumeRecoveryCode(database, userId, code);
  if (!valid) {
    // Only someone who knows the password gets here. Wrong passwords are counted as refused requests instead, because
    // anyone could fill the audit log with them.
    await recordAudit(
      database,
      { id: 'visitor', ip: request.ip },
      { action: 'user.sign_in_refused', subject: `user:${userId}`, detail: { at: kind } },
    );
    throw wrongCredentials('code', 'This code is incorrect or was already used.');
  }
  await attempts.reset('secondFactor', source);
  const cookies = await identity.startSession(request, userId);
  await recordSignIn(identity, userActor(userId, request), kind);
  return cookies;
}

/** Ends the session of a browser and returns the cookies to set. */
export async function signOut(identity: Identity, request: BrowserRequest): Promise<string[]> {
  await endPresentedSession(identity.database, request.headers, identity.cookieName);
  if (sessionToken(request.headers.cookie, identity.cookieName) === null) return [];
  const secure = identity.cookieName.startsWith('__Host-') ? '; Secure' : '';
  return [`${identity.cookieName}=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax${secure}`];
}

/** Returns the result of the first factor, for a session that better-auth has created. */
export async function finishFirstFactor(
  identity: Identity,
  request: BrowserRequest,
  cookies: string[],
  userId: string,
  method: string,
): Promise<SignInResult> {
  const row = await identity.database.kysely
    .selectFrom('users')
    .select('two_factor')
    .where('id', '=', userId)
    .executeTakeFirst();
  if (row?.two_factor === 1) return { status: 'second_factor', cookies };
  await recordSignIn(identity, userActor(userId, request), method);
  return { status: 'signed_in', cookies };
}

async function recordSignIn({ database }: Identity, by: Actor, method: string): Promise<void> {
  await recordAudit(database, by, { action: 'user.sign_in', subject: by.id, detail: { with: method } });
}

function wrongCredentials(param: string, message: string): ServiceError {
  return new ServiceError('wrong_credentials', message, { param });
}
