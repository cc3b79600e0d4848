import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import { ServiceError } from '../errors.ts';
import type { HttpContext } from './context.ts';
import { noteCaller } from './limit-headers.ts';

type Hook = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

/** Authenticates before the body is read, and refuses while the service stops. */
export function requireKey(context: HttpContext): Hook {
  return (request, _reply, done) => admit(context, request, done);
}

/** Sets `request.caller` from the key that is sent, or says why the request goes no further. */
export function admit(context: HttpContext, request: FastifyRequest, done: (error?: Error) => void): void {
  authenticate(context, request, (error) => done(error ?? refusedWhileStopping(context)));
}

/** Lets a request without a key pass; a key that is sent and is wrong is refused all the same. */
export function acceptKey(context: HttpContext): Hook {
  return (request, _reply, done) => {
    if (request.headers.authorization === undefined) done();
    else authenticate(context, request, done);
  };
}

/** Sets `request.caller`, or says why the request goes no further. At once where the key is in memory. */
function authenticate({ keys }: HttpContext, request: FastifyRequest, done: (error?: Error) => void): void {
  const decide = (caller: AuthenticatedKey | null) => {
    request.caller = caller;
    if (caller) noteCaller(request);
    done(caller ? undefined : invalidKey(request.headers.authorization));
  };
  try {
    const found = keys.authenticate(request.headers.authorization, request.ip);
    if (found instanceof Promise) found.then(decide, done);
    else decide(found);
  } catch (error) {
    // What is thrown is an error of the table.
    done(error as ServiceError);
  }
}

/** Has one message for every key that is not valid, so that it reveals nothing about existing keys. */
export function invalidKey(authorization: string | undefined): ServiceError {
  // A client whose key is an empty variable sends the scheme alone.
  const missing = /^(Bearer)?\s*$/i.test(authorization ?? '');
  return new ServiceError(
    'invalid_api_key',
    missing
      ? 'No API key was sent. Send one as `Authorization: Bearer sk-sluice-…`.'
      : 'The API key is not valid: it is mistyped, revoked or expired. Send a valid one as `Authorization: Bearer sk-sluice-…`.',
  );
}

/** What is said to whoever asks for something new while the service stops; `undefined` while it does not. */
export function refusedWhileStopping({ activity }: HttpContext): ServiceError | undefined {
  if (!activity.draining) return undefined;
  return new ServiceError('shutting_down', 'The service is stopping. Try again later.', {
    retryAfterMs: 1000,
  });
}
