import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import { ServiceError } from '../errors.ts';
import type { HttpContext } from './context.ts';
import { authenticatedRequests } from './limit-headers.ts';

type Hook = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

/** Returns a hook that authenticates before the body is read, and refuses requests while the service stops. */
export function requireKey(context: HttpContext): Hook {
  return (request, _reply, done) => authenticate(context, request, done);
}

/** Returns a hook that accepts requests without a key, but not with an invalid one. */
export function acceptKey(context: HttpContext): Hook {
  return (request, _reply, done) => {
    if (request.headers.authorization === undefined) done();
    else checkKey(context, request, done);
  };
}

/** Sets `request.caller`, or passes an error to `done`. While the service stops, this is always an error. */
export function authenticate(
  context: HttpContext,
  request: FastifyRequest,
  done: (error?: Error) => void,
): void {
  checkKey(context, request, (error) => done(error ?? stoppingError(context)));
}

/** Sets `request.caller`, or passes an error to `done`. Synchronous if the key is in memory. */
function checkKey({ keys }: HttpContext, request: FastifyRequest, done: (error?: Error) => void): void {
  const decide = (caller: AuthenticatedKey | null) => {
    request.caller = caller;
    if (caller) authenticatedRequests.set(request.raw, request);
    done(caller ? undefined : invalidKey(request.headers.authorization));
  };
  try {
    const found = keys.authenticate(request.headers.authorization, request.ip);
    if (found instanceof Promise) found.then(decide, done);
    else decide(found);
  } catch (error) {
    // `authenticate` throws only `ServiceError`s.
    done(error as ServiceError);
  }
}

/** Does not reveal why a key is invalid. */
export function invalidKey(authorization: string | undefined): ServiceError {
  // A client whose key is an empty variable sends the scheme alone.
  const missing = /^(Bearer)?\s*$/i.test(authorization ?? '');
  return new ServiceError(
    'invalid_api_key',
    missing
      ? 'No API key was sent. Send one as `Authorization: Bearer sk-sluice-…`.'
      : 'The API key is not valid: it is mistyped, revoked or expired, or its account is not active. Send a valid one as `Authorization: Bearer sk-sluice-…`.',
  );
}

/** Returns the error for new requests while the service stops, and undefined otherwise. */
export function stoppingError({ generations }: HttpContext): ServiceError | undefined {
  if (!generations.draining) return undefined;
  return new ServiceError('shutting_down', 'The service is stopping. Try again later.', {
    retryAfterMs: 1000,
  });
}
