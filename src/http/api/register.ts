import { isIP } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { assertChangeRate, type Actor } from '../../accounts/audit.ts';
import { ID } from '../../accounts/bounds.ts';
import { keepConnection } from '../../support/connection-watch.ts';
import { ServiceError } from '../../core/errors.ts';
import { parseJsonBody } from '../../json/json-body.ts';
import { authenticate, refuseWhileStopping } from '../authenticate.ts';
import type { HttpContext } from '../context.ts';
import { sendEmpty, sendJson, takeOver } from '../exchange.ts';
import { principalOfKey, principalOfSession, type Principal } from '../principal.ts';
import { authorizedAccount, checkCaller } from './access.ts';
import type { Endpoint } from './endpoint.ts';
import { API_ENDPOINTS } from './endpoints.ts';
import { BODY_BYTES, BODY_VALUES, OPEN_BODY_BYTES, parse } from './parse.ts';

/** Registers the management API: all paths below `/api/`. */
export function registerApi(app: FastifyInstance, context: HttpContext): void {
  for (const endpoint of API_ENDPOINTS) {
    app.route({
      method: endpoint.method,
      url: endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      bodyLimit: Math.min(
        endpoint.access === 'open' ? OPEN_BODY_BYTES : BODY_BYTES,
        context.settings.limits.bodyBytes,
      ),
      // Runs before the body is read.
      onRequest: (request) => authorize(context, endpoint, request),
      handler: (request, reply) => respond(context, endpoint, request, reply),
    });
  }
}

/** Sets `request.principal`. Rejects like `identify`, `checkCaller` and `checkOrigin`. */
async function authorize(context: HttpContext, endpoint: Endpoint, request: FastifyRequest): Promise<void> {
  request.principal = await identify(context, request);
  if (request.principal !== null) keepConnection(request.raw);
  checkCaller(endpoint, request.principal);
  if (endpoint.method !== 'GET' && request.principal?.key == null) checkOrigin(request, context.publicUrl());
}

/**
 * Identifies the caller by the `Authorization` header or, without one, by the session cookie. Null: no header and no
 * valid session. Rejects with a `ServiceError` `invalid_api_key`, `storage_unavailable` or, while the service stops,
 * `shutting_down`.
 */
async function identify(context: HttpContext, request: FastifyRequest): Promise<Principal | null> {
  const { authorization, cookie } = request.headers;
  if (authorization !== undefined) {
    await authenticate(context, request);
    return request.caller && principalOfKey(request.caller, request.ip);
  }
  refuseWhileStopping(context);
  if (cookie === undefined) return null;
  const session = await context.accounts.use(() => context.identity.session(request));
  return session && principalOfSession(session, request.ip);
}

/**
 * Throws a `ServiceError` `origin_not_allowed` unless the request comes from a page of this service: browsers send
 * cookies with requests from any page, and name the page's origin.
 */
function checkOrigin(request: FastifyRequest, publicUrl: string): void {
  const { origin, 'sec-fetch-site': site } = request.headers;
  const sameSite = site === undefined || site === 'same-origin';
  if (sameSite && typeof origin === 'string' && isOwnOrigin(origin, request, publicUrl)) return;
  throw new ServiceError(
    'origin_not_allowed',
    `Requests with a session must come from the console at ${new URL(publicUrl).origin}. Operators: if the console has another address, set \`publicUrl\`.`,
  );
}

/**
 * Whether an origin is this service: its public URL, or the `Host` of the request if that is an IP address or
 * `localhost`. Anyone can point another host name at this service, so other names must be in `publicUrl`. Headers of
 * proxies are ignored.
 */
function isOwnOrigin(origin: string, request: FastifyRequest, publicUrl: string): boolean {
  if (origin === new URL(publicUrl).origin) return true;
  const { host } = request.raw.headers;
  return host !== undefined && isIpOrLocalhost(host) && origin === `${request.protocol}://${host}`;
}

function isIpOrLocalhost(host: string): boolean {
  const name = /^(\[[\da-f:.]+\]|[\da-z.]+)(?::\d{1,5})?$/.exec(host)?.[1];
  return name === 'localhost' || (name !== undefined && isIP(name.replaceAll(/[[\]]/g, '')) !== 0);
}

/** Operators have no bound, because they may also delete entries of the audit log. */
function isRateBounded({ method }: Endpoint, { operator }: Principal): boolean {
  return method !== 'GET' && !operator;
}

/** Least bound of the changes of a user within an hour. */
const MIN_CHANGES = 100;

/** A user who creates as many keys as allowed can also revoke them. */
function maxChangesPerHour({ settings }: HttpContext): number {
  return Math.max(MIN_CHANGES, 2 * settings.keys.maxCreatedPerHour);
}

/** Number of running changes by actor, which are not in the audit log yet. */
const RUNNING = new Map<string, number>();

/** Counts a change of an actor until it is disposed. `others`: the changes of the same actor that are running now. */
function running({ actor: by }: Principal): { by: Actor; others: number } & Disposable {
  const others = RUNNING.get(by.id) ?? 0;
  RUNNING.set(by.id, others + 1);
  const end = (): void => {
    const left = (RUNNING.get(by.id) ?? 0) - 1;
    if (left > 0) RUNNING.set(by.id, left);
    else RUNNING.delete(by.id);
  };
  return { by, others, [Symbol.dispose]: end };
}

const EMPTY = new Uint8Array(0);

async function respond(
  context: HttpContext,
  endpoint: Endpoint,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  // A body can take minutes to arrive, and the key or session may have been revoked meanwhile.
  if (request.bodyMemory !== null) await authorize(context, endpoint, request);
  const { principal } = request;
  const { plans, limiter } = context.inference.accounting;
  const bytes = request.body instanceof Uint8Array ? request.body : EMPTY;
  const parts = {
    params: pathParameters(request),
    query: endpoint.query && parse(endpoint.query, request.query),
    body: endpoint.body && parse(endpoint.body, parseJsonBody(bytes, BODY_VALUES)),
  };
  const responseHeaders = ['cache-control', 'no-store', 'x-content-type-options', 'nosniff'];
  const disconnect = new AbortController();
  reply.raw.once('close', () => {
    disconnect.abort(new ServiceError('request_timeout', 'The client disconnected.'));
  });
  const body = await context.accounts.use(async (database) => {
    const { account } = endpoint;
    const accountId =
      account && principal
        ? authorizedAccount(endpoint, principal, await account.find({ database, ...parts }), account.missing)
        : null;
    using changing = principal !== null && isRateBounded(endpoint, principal) ? running(principal) : null;
    if (changing !== null)
      await assertChangeRate(database, changing.by, maxChangesPerHour(context), changing.others);
    return await endpoint.handle({
      ...parts,
      database,
      plans,
      limiter,
      context,
      request: { headers: request.headers, ip: request.ip },
      signal: disconnect.signal,
      responseHeaders,
      principal,
      actor: principal?.actor,
      accountId,
    });
  });
  // Applies changes at once on this instance. If this fails, the next poll applies them.
  if (endpoint.method !== 'GET') await context.keys.refresh().catch(() => {});
  const exchange = takeOver(request, reply);
  if (endpoint.response === null) sendEmpty(exchange, endpoint.status, responseHeaders);
  else sendJson(exchange, endpoint.status, JSON.stringify(body), responseHeaders);
}

/** Returns the path parameters. Throws `not_found` if one is not a valid ID. */
function pathParameters(request: FastifyRequest): Record<string, string> {
  const params = request.params as Record<string, string>; // Fastify's router parses them as strings.
  if (Object.values(params).every((id) => ID.test(id))) return params;
  throw new ServiceError('not_found', 'The ID is not valid.', { param: Object.keys(params)[0] });
}
