import type { FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';
import type { HttpContext } from './context.ts';

type Hook = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** Authenticates before the body is read, and refuses while the service stops. */
export function requireKey(context: HttpContext): Hook {
  return async (request) => {
    await authenticate(context, request);
    if (context.activity.draining) {
      throw new ServiceError('shutting_down', 'The service is stopping; try again.', { retryAfterMs: 1000 });
    }
  };
}

/** Lets a request without a key pass; a key that is sent and is wrong is refused all the same. */
export function acceptKey(context: HttpContext): Hook {
  return async (request) => {
    if (request.headers.authorization !== undefined) await authenticate(context, request);
  };
}

/** Sets `request.caller`, or rejects with why the request goes no further. */
async function authenticate({ keys }: HttpContext, request: FastifyRequest): Promise<void> {
  request.caller = await keys.authenticate(request.headers.authorization);
  if (request.caller) return;
  // One message for every way in which a key can be wrong, so that it tells nothing of which.
  throw new ServiceError(
    'invalid_api_key',
    'No valid API key was sent. Send one as `Authorization: Bearer sk-sluice-…`.',
  );
}
