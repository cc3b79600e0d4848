import { isIP } from 'node:net';
import type { FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';

/**
 * Whether a page of this origin is one of ours: the public address, or the address that this very request was sent
 * to, if that is an IP address or `localhost`. Any other name in a `Host` may be anybody's that points here, so the
 * console is used under a name only where `publicUrl` has it. What proxies say of the host is never believed.
 */
function isOurs(origin: string, request: FastifyRequest, publicUrl: string): boolean {
  if (origin === new URL(publicUrl).origin) return true;
  const { host } = request.raw.headers;
  return host !== undefined && isNobodysName(host) && origin === `${request.protocol}://${host}`;
}

/** An IP address or `localhost`, with a port or without: no name that somebody could have registered. */
function isNobodysName(host: string): boolean {
  const name = /^(\[[\da-f:.]+\]|[\da-z.]+)(?::\d{1,5})?$/.exec(host)?.[1];
  return name === 'localhost' || (name !== undefined && isIP(name.replaceAll(/[[\]]/g, '')) !== 0);
}

/**
 * Refuses a change that no key authorises unless a page of ours asks for it: browsers send cookies whoever asks, and
 * say who does. Throws a `ServiceError` `origin_not_allowed`.
 */
export function checkOrigin(request: FastifyRequest, publicUrl: string): void {
  const { origin, 'sec-fetch-site': site } = request.headers;
  const sameSite = site === undefined || site === 'same-origin';
  if (sameSite && typeof origin === 'string' && isOurs(origin, request, publicUrl)) return;
  throw new ServiceError(
    'origin_not_allowed',
    `Requests with a session must come from the console at ${new URL(publicUrl).origin}. Operators: if the console has another address, set \`publicUrl\`.`,
  );
}
