import { setTimeout as pause } from 'node:timers/promises';
import { ServiceError } from '../errors.ts';
import type { Identity } from './identity.ts';
import { endPresentedSession, sessionToken } from './sessions.ts';
import { finishFirstFactor } from './sign-in.ts';
import { hashToken } from './token.ts';
import { authHeaders, type BrowserRequest } from './browser-request.ts';

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
  const timeout = new AbortController();
  const response = await Promise.race([
    auth.handler(new Request(url, { headers: authHeaders(request) })),
    pause(CALLBACK_MS, NO_RESPONSE, { ref: false, signal: timeout.signal }),
  ]).finally(() => timeout.abort());
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
  await endPresentedSession(identity.database, request.headers, identity.cookieName);
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
