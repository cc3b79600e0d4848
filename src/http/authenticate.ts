import type { FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';
import type { HttpContext } from './context.ts';

type Hook = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

/** Authenticates before the body is read, and refuses while the service stops. */
export function requireKey(context: HttpContext): Hook {
  return (request, _reply, done) => {
    let refusal = authenticate(context, request);
    if (!refusal && context.activity.draining) {
      refusal = new ServiceError('shutting_down', 'The service is stopping; try again.', {
        retryAfterMs: 1000,
      });
    }
    done(refusal);
  };
}

/** Lets a request without a key pass; a key that is sent and is wrong is refused all the same. */
export function acceptKey(context: HttpContext): Hook {
  return (request, _reply, done) => {
    done(request.headers.authorization === undefined ? undefined : authenticate(context, request));
  };
}

/** Sets `request.caller`, or returns why the request goes no further. */
function authenticate({ keys }: HttpContext, request: FastifyRequest): ServiceError | undefined {
  try {
    request.caller = keys.authenticate(request.headers.authorization);
  } catch (error) {
    if (error instanceof ServiceError) return error;
    throw error;
  }
  // One message for every way in which a key can be wrong, so that it tells nothing of which.
  return request.caller
    ? undefined
    : new ServiceError(
        'invalid_api_key',
        'No valid API key was sent. Send one as `Authorization: Bearer sk-sluice-…`.',
      );
}
