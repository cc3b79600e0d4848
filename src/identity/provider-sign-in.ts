import { ServiceError } from '../errors.ts';
import { countAttempt } from './attempts.ts';
import type { Identity } from './identity.ts';
import { endPresented, sessionToken } from './sessions.ts';
import { begun } from './sign-in.ts';
import { hashToken } from './token.ts';
import { authHeaders, type Visit } from './visit.ts';

/**
 * Begins a sign-in with a provider: the address that the browser is to visit, and the cookies to set. Rejects with a
 * `ServiceError` `not_found`, `invalid_value` (param `return_to`), `provider_unavailable` or `too_many_attempts`.
 */
export async function signInWithProvider(
  identity: Identity,
  visit: Visit,
  { provider, returnTo = '/' }: { provider: string; returnTo?: string | undefined },
): Promise<{ url: string; cookies: string[] }> {
  await countAttempt(identity.database, 'provider', visit);
  if (!identity.settings.providers.some(({ id }) => id === provider)) {
    throw new ServiceError('not_found', 'This sign-in provider does not exist.', { param: 'provider' });
  }
  const callbackURL = ownPath(identity, returnTo);
  const auth = await identity.auth();
  try {
    const { headers, response } = await auth.api.signInSocial({
      body: { provider, callbackURL, errorCallbackURL: SIGN_IN, disableRedirect: true },
      headers: authHeaders(visit),
      returnHeaders: true,
    });
    if (!response.url) throw new TypeError('better-auth gave no address of the provider');
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
 * Completes it with what the provider has sent the browser back with: where the browser goes next, and the cookies
 * to set. What goes wrong is told to the sign-in page as `error`: `not_invited`, `email_not_verified`,
 * `not_linked` (somebody has the address who has not shown that it is theirs), `cancelled` or `provider_failed`.
 */
export async function finishProviderSignIn(
  identity: Identity,
  visit: Visit,
  { provider, query }: { provider: string; query: URLSearchParams },
): Promise<{ location: string; cookies: string[] }> {
  await countAttempt(identity.database, 'provider', visit);
  const auth = await identity.auth();
  const { origin } = new URL(identity.publicUrl());
  const address = `${origin}/api/auth/callback/${encodeURIComponent(provider)}?${query.toString()}`;
  const answer = await auth.handler(new Request(address, { headers: authHeaders(visit) }));
  const cookies = answer.headers.getSetCookie();
  const location = new URL(answer.headers.get('location') ?? SIGN_IN, origin);
  const token = cookies
    .map((cookie) => sessionToken(cookie, identity.cookieName))
    .find((one) => one !== null);
  if (token === undefined || location.origin !== origin) {
    const told = location.searchParams.get('error') ?? '';
    identity.log.info('sign-in with a provider failed', { provider, told });
    return { location: `${SIGN_IN}?error=${REASONS.get(told) ?? 'provider_failed'}`, cookies };
  }
  const { person_id: personId } = await identity.database.kysely
    .selectFrom('sessions')
    .select('person_id')
    .where('token_hash', '=', hashToken(token))
    .executeTakeFirstOrThrow();
  await endPresented(identity.database, visit.headers, identity.cookieName);
  const { status } = await begun(identity, visit, cookies, personId, provider);
  const next = `${location.pathname}${location.search}${location.hash}`;
  if (status === 'signed_in') return { location: next, cookies };
  return { location: `${SIGN_IN}?to=${encodeURIComponent(next)}`, cookies };
}

/** The page for all that a sign-in has to ask or to tell. */
const SIGN_IN = '/sign-in';

/** better-auth's words, or a provider's, in ours. */
const REASONS: ReadonlyMap<string, string> = new Map([
  ['not_invited', 'not_invited'],
  ['email_not_verified', 'email_not_verified'],
  ['email_not_found', 'email_not_verified'],
  ['account_not_linked', 'not_linked'],
  ['access_denied', 'cancelled'],
]);

/** A path of this very service, wherever its text would lead to else. */
function ownPath(identity: Identity, path: string): string {
  const { origin } = new URL(identity.publicUrl());
  const url = /^\/(?![/\\])/.test(path) ? URL.parse(path, origin) : null;
  if (url?.origin !== origin) {
    throw new ServiceError('invalid_value', '`return_to` must be a path of this service.', {
      param: 'return_to',
    });
  }
  return `${url.pathname}${url.search}${url.hash}`;
}
