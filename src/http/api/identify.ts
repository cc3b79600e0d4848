import type { FastifyRequest } from 'fastify';
import { admit, refusedWhileStopping } from '../authenticate.ts';
import type { HttpContext } from '../context.ts';
import { principalOfKey, principalOfPerson, type Principal } from '../principal.ts';

/**
 * Who calls: whoever has the key that is sent, or else whoever has signed in; null: neither. A key that is wrong is
 * refused, whatever cookie comes with it. Rejects with a `ServiceError` `invalid_api_key`, `storage_unavailable` or,
 * while the service stops, `shutting_down`.
 */
export async function identify(context: HttpContext, request: FastifyRequest): Promise<Principal | null> {
  const { authorization, cookie } = request.headers;
  if (authorization !== undefined) {
    await keyAccepted(context, request);
    return request.caller && principalOfKey(request.caller, request.ip);
  }
  const stopping = refusedWhileStopping(context);
  if (stopping) throw stopping;
  if (cookie === undefined) return null;
  const signedIn = await context.accounts.use(() => context.identity.signedIn(request));
  return signedIn && principalOfPerson(signedIn, request.ip);
}

/** Resolves once `request.caller` is known. */
function keyAccepted(context: HttpContext, request: FastifyRequest): Promise<void> {
  return new Promise((resolve, reject) => {
    admit(context, request, (error) => (error ? reject(error) : resolve()));
  });
}
