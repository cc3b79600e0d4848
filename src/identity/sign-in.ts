import { recordAudit, type Actor } from '../accounts/audit.ts';
import { ServiceError } from '../errors.ts';
import { countAttempt, resetAttempts } from './attempts.ts';
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
  const { database } = identity;
  const email = credentials.email.trim().toLowerCase();
  const source = { ip: request.ip, user: email };
  await countAttempt(database, 'signIn', source);
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
  if (result === null) {
    await recordFailedSignIn(identity, request, await userOf(identity, email), 'password');
    throw wrongCredentials('password', 'Incorrect email or password.');
  }
  await endPresentedSession(database, request.headers, identity.cookieName);
  await resetAttempts(database, 'signIn', source);
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
  const { database } = identity;
  const presented = await identity.presentedSession(request);
  if (!presented?.pending) {
    throw new ServiceError('sign_in_required', 'This sign-in has expired. Start again with your password.');
  }
  const userId = presented.session.user.id;
  const source = { ip: request.ip, user: userId };
  await countAttempt(database, 'secondFactor', source);
  const valid =
    kind === 'totp'
      ? await consumeTotp(database, identity.secretKeys, userId, code, true)
      : await consumeRecoveryCode(database, userId, code);
  if (!valid) {
    await recordFailedSignIn(identity, request, userId, kind);
    throw wrongCredentials('code', 'This code is incorrect or was already used.');
  }
  await resetAttempts(database, 'secondFactor', source);
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

/** Records a failed sign-in, even for an unknown address: the response time must not reveal whether a user exists. */
async function recordFailedSignIn(
  { database }: Identity,
  { ip }: BrowserRequest,
  userId: string | null,
  at: string,
): Promise<void> {
  const subject = `user:${userId ?? 'unknown'}`;
  await recordAudit(
    database,
    { id: 'visitor', ip },
    { action: 'user.sign_in_refused', subject, detail: { at } },
  );
}

async function userOf({ database }: Identity, email: string): Promise<string | null> {
  const row = await database.kysely
    .selectFrom('users')
    .select('id')
    .where('email', '=', email)
    .executeTakeFirst();
  return row?.id ?? null;
}

function wrongCredentials(param: string, message: string): ServiceError {
  return new ServiceError('wrong_credentials', message, { param });
}
