import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyRequest } from 'fastify';
import type { AuthenticatedKey, KeyStore, KeyUse } from '../accounts/keys.ts';
import { keepConnection } from '../support/connection-watch.ts';
import { ServiceError } from '../core/errors.ts';
import { clientName } from './client-name.ts';
import type { HttpContext } from './context.ts';
import { authenticatedRequests } from './limit-headers.ts';

type Hook = (request: FastifyRequest) => Promise<void>;

/** Returns a hook that authenticates before the body is read, and refuses requests while the service is stopping. */
export function requireKey(context: HttpContext): Hook {
  return (request) => authenticate(context, request);
}

/** Returns a hook that accepts requests without a key, but not with an invalid one. */
export function acceptKey({ keys }: HttpContext): Hook {
  return async (request) => {
    if (authorizationOf(request.headers) !== undefined) await setCaller(keys, request);
  };
}

/** Sets `request.caller`. Rejects like `callerOf`, and always while the service is stopping. */
export async function authenticate(context: HttpContext, request: FastifyRequest): Promise<void> {
  await setCaller(context.keys, request);
  refuseWhileStopping(context);
}

async function setCaller(keys: KeyStore, request: FastifyRequest): Promise<void> {
  request.caller = await callerOf(keys, authorizationOf(request.headers), useOf(request));
  authenticatedRequests.set(request.raw, { requestId: request.id, caller: null });
  keepConnection(request.raw);
}

/** Returns where a request came from. */
export function useOf({ ip, headers }: FastifyRequest): KeyUse {
  return { ip, client: clientName(headers['user-agent']) };
}

/**
 * Returns the `Authorization` header. A key in `x-api-key`, where Anthropic's clients send it, counts as one unless there is
 * a bearer token.
 */
export function authorizationOf(headers: IncomingHttpHeaders): string | undefined {
  const { authorization, 'x-api-key': key } = headers;
  if (typeof key !== 'string' || key === '' || BEARER.test(authorization ?? '')) return authorization;
  return `Bearer ${key}`;
}

const BEARER = /^Bearer\s+\S/i;

/**
 * Returns the key of an `Authorization` header, as a promise only if the database must be queried. Throws, or rejects
 * with, a `ServiceError` `invalid_api_key` or `storage_unavailable`.
 */
export function callerOf(
  keys: KeyStore,
  authorization: string | undefined,
  use: KeyUse,
): AuthenticatedKey | Promise<AuthenticatedKey> {
  const found = keys.authenticate(authorization, use);
  if (found instanceof Promise) return found.then((key) => key ?? Promise.reject(invalidKey(authorization)));
  if (found === null) throw invalidKey(authorization);
  return found;
}

/** Returns an error that does not reveal why a key is invalid. */
export function invalidKey(authorization: string | undefined): ServiceError {
  // A client whose key variable is empty sends only the scheme.
  const missing = /^(Bearer)?\s*$/i.test(authorization ?? '');
  return new ServiceError(
    'invalid_api_key',
    missing
      ? 'No API key was sent. Send one as `Authorization: Bearer sk-sluice-…`.'
      : 'The API key is not valid: it is mistyped, revoked or expired, or its account is not active. Send a valid one as `Authorization: Bearer sk-sluice-…`.',
  );
}

/** Throws a `ServiceError` `shutting_down` for a new request while the service stops. */
export function refuseWhileStopping({ generations }: HttpContext): void {
  if (!generations.draining) return;
  throw new ServiceError('shutting_down', 'The service is stopping. Try again later.', {
    retryAfterMs: 1000,
  });
}
