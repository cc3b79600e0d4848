import { randomUUIDv7 } from 'node:crypto';
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import { isIP, type Socket } from 'node:net';
import proxyAddr from '@fastify/proxy-addr';
import fastify from 'fastify';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { COUNT_PATH } from '../protocols/anthropic/count.ts';
import * as anthropic from '../protocols/anthropic/models.ts';
import { isSpareConnection, watchConnections } from '../support/connection-watch.ts';
import { ServiceError } from '../core/errors.ts';
import { formatModel, formatModelList } from '../protocols/openai/models.ts';
import { openApiDocument } from '../protocols/openai/openapi.ts';
import { didYouMean } from '../support/nearest.ts';
import { registerApi } from './api/register.ts';
import { managementPart } from './api/document.ts';
import { acceptKey, requireKey } from './authenticate.ts';
import { BodyMemory, registerBodies } from './body.ts';
import { currentResponse, refuseConnect, refuseLateRequest, respondToClientError } from './client-error.ts';
import { isPageRequest, registerConsole, sendPage } from './console.ts';
import type { HttpContext } from './context.ts';
import { registerTokenCount } from './count-tokens.ts';
import { sendError, sendJson, takeOver, type Exchange } from './exchange.ts';
import { modelNotAllowed } from './generate.ts';
import { GenerationEndpoint } from './generation-endpoint.ts';
import { isForAnthropic, languageOf, PROTOCOLS, protocolOf } from './protocols.ts';
import { serveHalfClosed } from './half-close.ts';
import { isHealthCheck, registerHealth } from './health.ts';
import { registerMetrics } from './metrics-endpoint.ts';
import { countRefusal, refuse } from './refusal.ts';
import { violation } from './strict.ts';
import { API_PATHS } from './api/endpoints.ts';

// An `import` would read all properties of the module, and one of them loads Node's `fetch`.
const { createServer } = process.getBuiltinModule('node:http');

/** Creates the HTTP server, without listening. Closing it ends open connections. */
export function buildServer(context: HttpContext): FastifyInstance {
  const { limits } = context;
  const trustProxy =
    context.trustedProxies.length > 0 ? proxyAddr.compile([...context.trustedProxies]) : false;
  const addressOf = (request: IncomingMessage) =>
    (trustProxy ? proxyAddr(request, trustProxy) : request.socket.remoteAddress) ?? null;
  const memory = new BodyMemory(limits);
  const generations = new GenerationEndpoint(context, memory, addressOf);
  const respondNotFound = (request: FastifyRequest, reply: FastifyReply): void => {
    if (context.consoleEnabled && isPageRequest(request)) void sendPage(reply);
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
    app.post(protocol.path, { onRequest }, () => {});
  }
  registerTokenCount(app, context);
  registerModels(app, context);
  registerHealth(app, context);
  registerMetrics(app, context);
  registerApi(app, context);
  registerOpenApi(app, context);
  if (context.consoleEnabled) registerConsole(app);
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
  countRefusal(context, request, fault, null);
  const protocol = languageOf(request);
  const exchange = { request, response, requestId: randomUUIDv7(), ...(protocol && { protocol }) };
  sendError(exchange, fault, context.limits.drainBytes, ['connection', 'close']);
}

/** Creates Node's server, with the limits and timeouts for all endpoints. */
function openServer(
  context: HttpContext,
  trustProxy: ((address: string, index: number) => boolean) | false,
  serve: RequestListener,
): Server {
  const { limits, stream } = context;
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
    countRefusal(context, request, fault, null);
    sendError(exchange, fault, limits.drainBytes);
  });
  server.on('checkExpectation', refuseExpectation);
  return server;
}

/** `GET /v1/models` and `GET /v1/models/<namespace>/<name>`, in OpenAI's or Anthropic's form. */
function registerModels(app: FastifyInstance, context: HttpContext): void {
  const onRequest = context.requireKeyForModels ? requireKey(context) : acceptKey(context);
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
  const { version, limits } = context;
  const info = { version, serverUrl: context.publicUrl(), maxChoices: limits.choices };
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
    const fault = new ServiceError(
      'unknown_url',
      `Unknown endpoint: ${request.method} ${path.slice(0, 200)}.${hintFor(path)}`,
    );
    countRefusal(context, request.raw, fault, null);
    sendError(exchange, fault, context.limits.drainBytes);
    return;
  }
  if (request.method === 'OPTIONS') {
    respondToPreflight(exchange, methods);
    return;
  }
  const fault = new ServiceError(
    'method_not_allowed',
    `${path} supports ${methods.join(', ')}, not ${request.method}.`,
  );
  countRefusal(context, request.raw, fault, null);
  sendError(exchange, fault, context.limits.drainBytes, ['allow', [...methods, 'OPTIONS'].join(', ')]);
}

/** Allows every origin to call `/v1`, which accepts keys and no cookies. */
function respondToPreflight({ request, response, requestId }: Exchange, methods: readonly string[]): void {
  const requested = request.headers['access-control-request-headers'];
  const headers = ['x-request-id', requestId, 'allow', [...methods, 'OPTIONS'].join(', ')];
  if (request.headers.origin !== undefined && request.url?.startsWith('/v1/')) {
    headers.push('access-control-allow-origin', '*', 'access-control-allow-methods', methods.join(', '));
    headers.push('access-control-max-age', '86400', 'vary', 'Access-Control-Request-Headers');
    // `*` does not cover `Authorization`.
    if (typeof requested === 'string') headers.push('access-control-allow-headers', requested);
  }
  response.writeHead(204, headers);
  response.end();
}

/** The paths and methods of all endpoints except the management API. `*` matches the rest of a path. */
export const PATHS = [
  ...PROTOCOLS.map(({ path }) => [path, ['POST']] as const),
  [COUNT_PATH, ['POST']],
  ['/v1/models', ['GET', 'HEAD']],
  ['/v1/models/*', ['GET', 'HEAD']],
  ['/healthz', ['GET', 'HEAD']],
  ['/readyz', ['GET', 'HEAD']],
  ['/metrics', ['GET', 'HEAD']],
  ['/openapi.json', ['GET', 'HEAD']],
] as const satisfies readonly (readonly [path: string, methods: readonly string[]])[];

const PATTERNS = [...PATHS, ...API_PATHS].map(([path, methods]) => {
  const pattern = path
    .replace('.', String.raw`\.`)
    .replace('*', '.*')
    .replaceAll(/\{\w+\}/g, '[^/]+');
  return { pattern: new RegExp(`^${pattern}/?$`), methods };
});

/** Returns the methods that a path supports; null: unknown path. */
function methodsOf(path: string): readonly string[] | null {
  return PATTERNS.find(({ pattern }) => pattern.test(path))?.methods ?? null;
}

/** Maximum length of a path that a hint repeats. */
const MAX_HINT = 200;

/** Returns ` Did you mean …?` for a path with a missing, repeated or wrong prefix, or a spelling error; empty if none is near. */
function hintFor(path: string): string {
  if (path.startsWith('/v1/responses/')) {
    return ' Responses are not stored: keep the items of `output`, and send them in `input`.';
  }
  const candidates = [`/v1${path}`, path.slice(path.lastIndexOf('/v1/'))];
  const right = candidates.find((candidate) => candidate.startsWith('/v1/') && methodsOf(candidate));
  if (right !== undefined && right.length <= MAX_HINT) return ` Did you mean \`${right}\`?`;
  return didYouMean(
    path,
    PROTOCOLS.map((protocol) => protocol.path),
  );
}

/** Maximum unanswered requests of a connection. Clients that do not pipeline, which is almost all, have one. */
const MAX_UNANSWERED = 16;

/**
 * Returns a function that wraps listeners for requests and bounds the unanswered requests of each connection. HTTP/1.1
 * allows clients to send requests without waiting for responses (pipelining), and each of them occupies memory until its
 * response is sent. A connection that exceeds the bound is not read any further. It is closed after the responses to
 * the first requests, so that the client sends the others again (RFC 9112, section 9.3.2).
 */
function pipelineBound(): (serve: RequestListener) => RequestListener {
  const pipelines = new WeakMap<Socket, Pipeline>();
  return (serve) => (request, response) => {
    let pipeline = pipelines.get(request.socket);
    if (pipeline === undefined) pipelines.set(request.socket, (pipeline = new Pipeline()));
    if (pipeline.admit(request, response)) serve(request, response);
  };
}

class Pipeline {
  #unanswered = 0;
  /** The response to the last request that is served. */
  #last: ServerResponse | null = null;
  #exceeded = false;

  /** Whether to serve the request. */
  admit({ socket }: IncomingMessage, response: ServerResponse): boolean {
    // Requests that the client had already sent are parsed even after the connection is paused.
    if (this.#exceeded) return false;
    if (this.#unanswered === MAX_UNANSWERED) {
      this.#exceeded = true;
      socket.pause();
      // Tells the client that no further responses follow, and closes the connection after this one.
      if (this.#last !== null) this.#last.shouldKeepAlive = false;
      return false;
    }
    this.#unanswered += 1;
    this.#last = response;
    response.once('close', () => {
      this.#unanswered -= 1;
      // In case the last response had begun when the bound was exceeded.
      if (this.#exceeded && this.#unanswered === 0) socket.destroySoon();
    });
    return true;
  }
}
