import { recordAudit, type Actor } from '../accounts/audit.ts';
import { within } from '../support/deadline.ts';
import { loggable } from '../database/errors.ts';
import { ServiceError } from '../core/errors.ts';
import type { Identity } from './identity.ts';
import { consumeRecoveryCode, consumeTotp, hasSecondFactor } from './second-factor.ts';
import { endPresentedSession, sessionToken } from './sessions.ts';
import { authHeaders, userActor, type BrowserRequest } from './browser-request.ts';
import { hashToken } from './token.ts';

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
  await endPresentedSession(database, request, identity.cookieName);
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
  await endPresentedSession(identity.database, request, identity.cookieName);
  if (sessionToken(request.headers.cookie, identity.cookieName) === null) return [];
  const secure = identity.cookieName.startsWith('__Host-') ? '; Secure' : '';
  return [`${identity.cookieName}=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax${secure}`];
}

/** Returns the result of the first factor, for a session that better-auth has created. */
async function finishFirstFactor(
  identity: Identity,
  request: BrowserRequest,
  cookies: string[],
  userId: string,
  method: string,
): Promise<SignInResult> {
  if (await hasSecondFactor(identity.database, userId)) return { status: 'second_factor', cookies };
  await recordSignIn(identity, userActor(userId, request), method);
  return { status: 'signed_in', cookies };
}

async function recordSignIn({ database }: Identity, by: Actor, method: string): Promise<void> {
  await recordAudit(database, by, { action: 'user.sign_in', subject: by.id, detail: { with: method } });
}

function wrongCredentials(param: string, message: string): ServiceError {
  return new ServiceError('wrong_credentials', message, { param });
}

/**
 * Starts a sign-in with a provider. Returns the URL to redirect the browser to, and the cookies to set. Rejects with a
 * `ServiceError` `not_found`, `invalid_value` (param `return_to`), `provider_unavailable` or `too_many_attempts`.
 */
export async function signInWithProvider(
  identity: Identity,
  request: BrowserRequest,
  { provider, returnTo = '/' }: { provider: string; returnTo?: string | undefined },
): Promise<{ url: string; cookies: string[] }> {
  await identity.attempts.count('provider', request);
  if (!hasProvider(identity, provider)) {
    throw new ServiceError('not_found', 'This sign-in provider does not exist.', { param: 'provider' });
  }
  const callbackURL = checkedPath(identity, returnTo);
  const auth = await identity.auth();
  try {
    const { headers, response } = await auth.api.signInSocial({
      body: { provider, callbackURL, errorCallbackURL: SIGN_IN, disableRedirect: true },
      headers: authHeaders(request),
      returnHeaders: true,
    });
    if (!response.url) throw new TypeError('better-auth returned no URL of the provider');
    return { url: response.url, cookies: headers.getSetCookie() };
  } catch (error) {
    throw new ServiceError(
      'provider_unavailable',
      'The sign-in provider did not respond correctly. Try again later.',
      {
        cause: error,
      },
    );
  }
}

/**
 * Handles the callback of a provider. Returns where to redirect the browser, and the cookies to set. The sign-in page
 * receives failures in the query parameter `error`: `not_invited`, `email_not_verified`, `cancelled` or
 * `provider_failed`.
 */
export async function finishProviderSignIn(
  identity: Identity,
  request: BrowserRequest,
  { provider, query }: { provider: string; query: URLSearchParams },
): Promise<{ location: string; cookies: string[] }> {
  await identity.attempts.count('provider', request);
  if (!hasProvider(identity, provider)) return { location: `${SIGN_IN}?error=provider_failed`, cookies: [] };
  const auth = await identity.auth();
  const { origin } = new URL(identity.publicUrl());
  const url = `${origin}/api/auth/callback/${encodeURIComponent(provider)}?${query.toString()}`;
  const handled = auth.handler(new Request(url, { headers: authHeaders(request) }));
  const response = await within(CALLBACK_MS, handled).catch((error: unknown) => {
    identity.log.warn('the callback of a sign-in provider failed', { provider, error: loggable(error) });
    return NO_RESPONSE;
  });
  const cookies = response.headers.getSetCookie();
  const location = new URL(response.headers.get('location') ?? SIGN_IN, origin);
  const token = cookies
    .map((cookie) => sessionToken(cookie, identity.cookieName))
    .find((value) => value !== null);
  const session =
    token === undefined || location.origin !== origin
      ? undefined
      : await identity.database.kysely
          .selectFrom('sessions')
          .select('user_id')
          .where('token_hash', '=', hashToken(token))
          .executeTakeFirst();
  if (session === undefined) {
    const reason = (location.searchParams.get('error') ?? '').slice(0, 100);
    identity.log.info('sign-in with a provider failed', { provider, reason });
    return { location: `${SIGN_IN}?error=${ERRORS.get(reason) ?? 'provider_failed'}`, cookies };
  }
  await endPresentedSession(identity.database, request, identity.cookieName);
  const { status } = await finishFirstFactor(identity, request, cookies, session.user_id, provider);
  const next = `${location.pathname}${location.search}${location.hash}`;
  if (status === 'signed_in') return { location: next, cookies };
  return { location: `${SIGN_IN}?to=${encodeURIComponent(next)}`, cookies };
}

const SIGN_IN = '/sign-in';

/** How long a callback waits for the provider's tokens, in milliseconds. */
const CALLBACK_MS = 15_000;
const NO_RESPONSE = new Response(null, { headers: { location: `${SIGN_IN}?error=no_response` } });

function hasProvider({ settings }: Identity, provider: string): boolean {
  return settings.providers.some(({ id }) => id === provider);
}

/** Maps the error codes of better-auth and of providers to ours. */
const ERRORS: ReadonlyMap<string, string> = new Map([
  ['not_invited', 'not_invited'],
  ['email_not_verified', 'email_not_verified'],
  ['email_not_found', 'email_not_verified'],
  ['account_not_linked', 'email_not_verified'],
  ['access_denied', 'cancelled'],
]);

/** Throws `invalid_value` unless the path resolves to a page of this service. */
function checkedPath(identity: Identity, path: string): string {
  const { origin } = new URL(identity.publicUrl());
  const url = /^\/(?![/\\])/.test(path) ? URL.parse(path, origin) : null;
  if (url?.origin !== origin || url.pathname.startsWith('//')) {
    throw new ServiceError('invalid_value', '`return_to` must be a path of this service.', {
      param: 'return_to',
    });
  }
  return `${url.pathname}${url.search}${url.hash}`;
}
