import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../../errors.ts';
import { parseJsonBody } from '../../openai/json-body.ts';
import type { HttpContext } from '../context.ts';
import { answerJson, answerNothing } from '../exchange.ts';
import { checkOrigin } from '../origin.ts';
import { checkCaller, checkedAccount } from './access.ts';
import type { Endpoint } from './endpoint.ts';
import { API_ENDPOINTS } from './endpoints.ts';
import { ID } from '../../accounts/bounds.ts';
import { identify } from './identify.ts';
import { OPEN_BODY_BYTES, parse } from './parse.ts';

/** The management interface: everything below `/api/`. */
export function registerApi(app: FastifyInstance, context: HttpContext): void {
  for (const endpoint of API_ENDPOINTS) {
    app.route({
      method: endpoint.method,
      url: endpoint.path.replaceAll(/\{(\w+)\}/g, ':$1'),
      // Nobody needs much to say who they are.
      ...(endpoint.access === 'open' && { bodyLimit: OPEN_BODY_BYTES }),
      // Before the body is read.
      onRequest: async (request) => {
        request.principal = await identify(context, request);
        checkCaller(endpoint, request.principal);
        if (endpoint.method !== 'GET' && request.principal?.key == null) {
          checkOrigin(request, context.publicUrl());
        }
      },
      handler: (request, reply) => answer(context, endpoint, request, reply),
    });
  }
}

const EMPTY = new Uint8Array(0);

async function answer(
  context: HttpContext,
  endpoint: Endpoint,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const { principal } = request;
  const { plans, limits } = context.inference.accounting;
  const bytes = request.body instanceof Uint8Array ? request.body : EMPTY;
  const parts = {
    params: paramsOf(request),
    query: endpoint.query && parse(endpoint.query, request.query),
    body: endpoint.body && parse(endpoint.body, parseJsonBody(bytes)),
  };
  const answerHeaders = ['cache-control', 'no-store', 'x-content-type-options', 'nosniff'];
  const body = await context.accounts.use(async (database) => {
    const { account } = endpoint;
    const accountId =
      account && principal
        ? checkedAccount(endpoint, principal, await account.find({ database, ...parts }), account.missing)
        : null;
    return await endpoint.handle({
      ...parts,
      database,
      plans,
      limits,
      context,
      request: { headers: request.headers, ip: request.ip },
      answerHeaders,
      principal,
      actor: principal?.actor,
      accountId,
    });
  });
  // What was changed holds here at once. Where that fails the change is made all the same, and the poll sees it.
  if (endpoint.method !== 'GET') await context.keys.refresh().catch(() => {});
  reply.hijack();
  const exchange = { request: request.raw, response: reply.raw, requestId: request.id };
  if (endpoint.answer === null) answerNothing(exchange, endpoint.status, answerHeaders);
  else answerJson(exchange, endpoint.status, JSON.stringify(body), answerHeaders);
}

/** What stands in a path for its parameters. What cannot be an id is that of nothing. */
function paramsOf(request: FastifyRequest): Record<string, string> {
  const params = request.params as Record<string, string>; // Fastify gives each name in the path its text.
  if (Object.values(params).every((id) => ID.test(id))) return params;
  throw new ServiceError('not_found', 'The ID is not valid.', { param: Object.keys(params)[0] });
}
