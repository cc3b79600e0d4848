import { randomUUIDv7 } from 'node:crypto';
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { isIP, type Socket } from 'node:net';
import proxyAddr from '@fastify/proxy-addr';
import fastify from 'fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as anthropic from '../protocols/anthropic/models.ts';
import { isSpareConnection, watchConnections } from '../support/connection-watch.ts';
import { ServiceError } from '../core/errors.ts';
import { formatModel, formatModelList } from '../protocols/openai/models.ts';
import { openApiDocument } from '../protocols/openai/openapi.ts';
import { registerApi } from './api/register.ts';
import { managementPart } from './api/document.ts';
import { acceptKey, requireKey } from './authenticate.ts';
import { BodyMemory, registerBodies } from './body.ts';
import { currentResponse, refuseConnect, refuseLateRequest, respondToClientError } from './client-error.ts';
import { isPageRequest, registerConsole, sendPage } from './console.ts';
import type { HttpContext } from './context.ts';
import { modelNotAllowed } from './generate.ts';
import { registerTokenCount } from './count-tokens.ts';
import { sendJson, takeOver } from './exchange.ts';
import { GenerationEndpoint } from './generation-endpoint.ts';
import { isForAnthropic, languageOf, pathsOf, PROTOCOLS, protocolOf } from './protocols.ts';
import { serveHalfClosed } from './half-close.ts';
import { isHealthCheck, registerHealth } from './health.ts';
import { registerMetrics } from './metrics-endpoint.ts';
import { refuse, refuseUnread } from './refusal.ts';
import { violation } from './strict.ts';
import { pipelineBound } from './pipeline.ts';
import { respondToPreflight } from './preflight.ts';
import { methodsOf, hintFor } from './paths.ts';

// An `import` would read all properties of the module, and one of them loads Node's `fetch`.
const { createServer } = process.getBuiltinModule('node:http');

/** Creates the HTTP server, without listening. Closing it ends open connections. */
export function buildServer(context: HttpContext): FastifyInstance {
  const { limits, trustedProxies, console: pages } = context.settings;
  const trustProxy = trustedProxies.length > 0 ? proxyAddr.compile(trustedProxies) : false;
  const addressOf = (request: IncomingMessage) =>
    (trustProxy ? proxyAddr(request, trustProxy) : request.socket.remoteAddress) ?? null;
  const memory = new BodyMemory(limits);
  const generations = new GenerationEndpoint(context, memory, addressOf);
  const respondNotFound = (request: FastifyRequest, reply: FastifyReply): void => {
    if (pages.enabled && isPageRequest(request)) void sendPage(reply);
    else refuseUnknown(context, request, reply);
  };
  const app = fastify({
    logger: false,
    genReqId: () => randomUUIDv7(),
    bodyLimit: limits.bodyBytes,
    trustProxy,
    forceCloseConnections: true,
    return503OnClosing: false,
    serverFactory: (serveWithFastify) =>
      openServer(context, trustProxy, (request, response) => {
        if (trustProxy) cleanForwardedFor(request);
        const protocol = protocolOf(request);
        if (isSpareConnection(request) && !isHealthCheck(request)) refuseSpare(context, request, response);
        else if (protocol === undefined) serveWithFastify(request, response);
        else void generations.serve(protocol, request, response);
      }),
    clientErrorHandler: (error, socket) => void respondToClientError(context, error, socket),
    frameworkErrors: (error, request, reply) => respondToError(context, error, request, reply),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 1000 },
    // Otherwise, Fastify loads its JSON Schema compilers, which is a tenth of the cost of starting the service.
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
  });
  app.decorateRequest('caller', null);
  app.decorateRequest('principal', null);
  app.addHook('onRequest', (request, reply, done) => {
    const fault = violation(request.raw);
    if (fault) done(fault);
    // Responds here, because Fastify would call the 404 handler only after reading the body.
    else if (request.is404) respondNotFound(request, reply);
    else done();
  });
  registerBodies(app, memory);
  app.setErrorHandler((error, request, reply) => respondToError(context, error, request, reply));
  app.setNotFoundHandler(respondNotFound);

  for (const protocol of PROTOCOLS) {
    // For unusual spellings of the path. The hook responds, so Fastify neither reads the body nor calls the handler.
    const onRequest = (request: FastifyRequest, reply: FastifyReply): void => {
      const { request: raw, response } = takeOver(request, reply);
      void generations.serve(protocol, raw, response);
    };
    for (const path of pathsOf(protocol)) app.post(path, { onRequest }, () => {});
  }
  registerTokenCount(app, context);
  registerModels(app, context);
  registerHealth(app, context);
  registerMetrics(app, context);
  registerApi(app, context);
  registerOpenApi(app, context);
  if (pages.enabled) registerConsole(app);
  return app;
}

/**
 * Keeps only the IP addresses of `X-Forwarded-For`: some proxies add the port, with which each connection would count as
 * another client. Text that is not an address, and what is left of it, is dropped, so that the proxy counts as the client.
 */
function cleanForwardedFor({ headers }: IncomingMessage): void {
  const forwarded = headers['x-forwarded-for'];
  if (forwarded === undefined) return;
  const addresses = String(forwarded)
    .split(',')
    .map((entry) => entry.trim().replace(/^(?:\[(.*)\]|([\d.]+))(?::\d+)?$/, '$1$2'));
  headers['x-forwarded-for'] = addresses
    .slice(addresses.findLastIndex((one) => isIP(one) === 0) + 1)
    .join(', ');
}

/** Routes have no JSON schemas: `api/register.ts` checks requests with zod. */
function noSchemas(): never {
  throw new Error('routes must not have JSON schemas');
}

/** Refuses a request on a connection above `limits.connections`, and closes it. */
function refuseSpare(context: HttpContext, request: IncomingMessage, response: ServerResponse): void {
  const fault = new ServiceError('overloaded', 'The service has too many connections. Try again later.', {
    retryAfterMs: 1000,
  });
  const protocol = languageOf(request);
  const exchange = { request, response, requestId: randomUUIDv7(), ...(protocol && { protocol }) };
  refuseUnread(context, exchange, fault, ['connection', 'close']);
}

/** Creates Node's server, with the limits and timeouts for all endpoints. */
function openServer(
  context: HttpContext,
  trustProxy: ((address: string, index: number) => boolean) | false,
  serve: RequestListener,
): Server {
  const { limits, stream } = context.settings;
  // `violation` refuses a missing `Host`, in the usual error format.
  const bounded = pipelineBound();
  const server = createServer(
    { maxHeaderSize: limits.headerBytes, requireHostHeader: false },
    bounded(serve),
  );
  const bounds = {
    max: limits.connections,
    isProxy: (address: string) => trustProxy && trustProxy(address, 0),
  };
  watchConnections(
    server,
    { requestMs: limits.bodyMs, stallMs: stream.stallMs, idleMs: limits.idleConnectionMs, bounds },
    (socket) => void refuseLateRequest(context, socket),
  );
  serveHalfClosed(server, currentResponse);
  // Connections of an HTTP server are `net.Socket`s.
  server.on('connect', (_request, socket) => void refuseConnect(context, socket as Socket));
  const refuseExpectation = bounded((request, response) => {
    const exchange = { request, response, requestId: randomUUIDv7() };
    const fault = new ServiceError('expectation_failed', 'The `Expect` header must be `100-continue`.');
    refuseUnread(context, exchange, fault);
  });
  server.on('checkExpectation', refuseExpectation);
  return server;
}

/** `GET /v1/models` and `GET /v1/models/<namespace>/<name>`, in OpenAI's or Anthropic's form. */
function registerModels(app: FastifyInstance, context: HttpContext): void {
  const onRequest = context.settings.requireKeyForModels ? requireKey(context) : acceptKey(context);
  app.get('/v1/models', { onRequest }, (request, reply) => {
    const cards = context.router.cards().filter(({ id }) => mayUse(request, id));
    const list = isForAnthropic(request.raw) ? anthropic.formatModelList(cards) : formatModelList(cards);
    sendJson(takeOver(request, reply), 200, JSON.stringify(list));
  });
  app.get<{ Params: { '*': string } }>('/v1/models/*', { onRequest }, (request, reply) => {
    const model = context.router.model(request.params['*'], request.caller?.models);
    if (!mayUse(request, model.id)) throw modelNotAllowed(model.id);
    const card = model.card();
    if (!card) {
      throw new ServiceError('engine_unavailable', 'This model is not ready yet. Try again later.', {
        retryAfterMs: 1000,
      });
    }
    const formatted = isForAnthropic(request.raw) ? anthropic.formatModel(card) : formatModel(card);
    sendJson(takeOver(request, reply), 200, JSON.stringify(formatted));
  });
}

/** Whether the key of the request allows the model; without a key all models are visible. */
function mayUse({ caller }: FastifyRequest, model: string): boolean {
  return caller?.models?.has(model) !== false;
}

/** `GET /openapi.json`, from the schemas that validate requests. The document is written once, by the first request. */
function registerOpenApi(app: FastifyInstance, context: HttpContext): void {
  let document: readonly Buffer[] | null = null;
  app.get('/openapi.json', (request, reply) => {
    document ??= [Buffer.from(JSON.stringify(describe(context)))];
    sendJson(takeOver(request, reply), 200, document);
  });
}

function describe(context: HttpContext): object {
  const { version, settings } = context;
  const info = { version, serverUrl: context.publicUrl(), maxChoices: settings.limits.choices };
  return openApiDocument(info, PROTOCOLS, managementPart());
}

function respondToError(
  context: HttpContext,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  const { caller, principal, routeOptions } = request;
  refuse(
    context,
    takeOver(request, reply),
    routeError(error),
    routeOptions.url,
    caller,
    principal?.session != null,
  );
}

function routeError(error: unknown): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'FST_ERR_BAD_URL' ||
    code === 'FST_ERR_MAX_PARAM_LENGTH' ||
    code === 'FST_ERR_ASYNC_CONSTRAINT'
    ? new ServiceError('unknown_url', 'The path is not valid.')
    : error;
}

function refuseUnknown(context: HttpContext, request: FastifyRequest, reply: FastifyReply): void {
  const exchange = takeOver(request, reply);
  const path = (request.raw.url ?? '').split('?', 1)[0] ?? '';
  const methods = methodsOf(path);
  if (!methods) {
    const message = `Unknown endpoint: ${request.method} ${path.slice(0, 200)}.${hintFor(path)}`;
    refuseUnread(context, exchange, new ServiceError('unknown_url', message));
  } else if (request.method === 'OPTIONS') respondToPreflight(exchange, methods);
  else {
    const message = `${path} supports ${methods.join(', ')}, not ${request.method}.`;
    const allow = ['allow', [...methods, 'OPTIONS'].join(', ')];
    refuseUnread(context, exchange, new ServiceError('method_not_allowed', message), allow);
  }
}
