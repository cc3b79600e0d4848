import { randomUUIDv7 } from 'node:crypto';
import type { Socket } from 'node:net';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { watchConnections } from '../connection-watch.ts';
import { ServiceError } from '../errors.ts';
import { registerApi } from './api/register.ts';
import { requireKey } from './authenticate.ts';
import { registerBodies } from './body.ts';
import { answerClientError, currentResponse, refuseConnect, refuseLateRequest } from './client-error.ts';
import { answerPage, asksForPage, registerConsole } from './console.ts';
import type { HttpContext } from './context.ts';
import { refuse } from './exchange.ts';
import { generate } from './generate.ts';
import { serveHalfClosed } from './half-close.ts';
import { registerHealth } from './health.ts';
import { limitHeaders } from './limit-headers.ts';
import { registerModels } from './models.ts';
import { registerOpenApi } from './openapi.ts';
import { methodsOf } from './paths.ts';
import { violation } from './strict.ts';

/** Builds the HTTP server of the whole interface. It listens when told to; closing it ends what is open. */
export function buildServer(context: HttpContext): FastifyInstance {
  const { limits } = context;
  const answerNotFound = (request: FastifyRequest, reply: FastifyReply): void => {
    if (context.consoleEnabled && asksForPage(request)) void answerPage(reply);
    else answerUnknown(context, request, reply);
  };
  const app = fastify({
    logger: false,
    genReqId: () => randomUUIDv7(),
    bodyLimit: limits.bodyBytes,
    trustProxy: context.trustedProxies.length > 0 ? [...context.trustedProxies] : false,
    forceCloseConnections: true,
    return503OnClosing: false,
    // The `strict` check responds to a missing `Host` in the shape of every other error.
    http: { maxHeaderSize: limits.headerBytes, requireHostHeader: false },
    clientErrorHandler: (error, socket) =>
      void answerClientError(context.inference.accounting, error, socket),
    frameworkErrors: (error, request, reply) => void answerFault(context, error, request, reply),
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 1000 },
  });
  app.server.maxConnections = limits.connections;
  watchConnections(
    app.server,
    { requestMs: limits.bodyMs, stallMs: context.stream.stallMs, idleMs: limits.idleConnectionMs },
    (socket) => void refuseLateRequest(context.inference.accounting, socket),
  );
  serveHalfClosed(app.server, currentResponse);
  app.server.on(
    'connect',
    (_request, socket) =>
      // A connection of an HTTP server is a `net.Socket`.
      void refuseConnect(context.inference.accounting, socket as Socket),
  );
  app.server.on('checkExpectation', (request, response) => {
    const exchange = { request, response, requestId: randomUUIDv7() };
    const fault = new ServiceError('expectation_failed', 'The `Expect` header must be `100-continue`.');
    refuse(exchange, fault, limits.drainBytes);
  });
  app.decorateRequest('caller', null);
  app.decorateRequest('principal', null);
  app.addHook('onRequest', (request, reply, done) => {
    const fault = violation(request.raw);
    if (fault) done(fault);
    // Before Fastify reads a body, which it expects of methods that no route has.
    else if (request.is404) answerNotFound(request, reply);
    else done();
  });
  registerBodies(app, limits);
  app.setErrorHandler((error, request, reply) => answerFault(context, error, request, reply));
  app.setNotFoundHandler(answerNotFound);

  const admit = requireKey(context);
  app.post('/v1/chat/completions', { onRequest: admit }, (request, reply) =>
    generate(context, 'chat', request, reply),
  );
  app.post('/v1/completions', { onRequest: admit }, (request, reply) =>
    generate(context, 'text', request, reply),
  );
  registerModels(app, context);
  registerHealth(app, context);
  registerApi(app, context);
  registerOpenApi(app, context);
  if (context.consoleEnabled) registerConsole(app);
  return app;
}

async function answerFault(
  context: HttpContext,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  reply.hijack();
  const fault = translate(context, error, request);
  if (fault.status !== 401)
    context.log.info('request refused', {
      requestId: request.id,
      code: fault.code,
      path: request.routeOptions.url,
    });
  const record = { limitHeaders: await limitHeaders(context.inference.accounting, request) };
  const exchange = { request: request.raw, response: reply.raw, requestId: request.id, record };
  refuse(exchange, fault, context.limits.drainBytes);
}

function translate({ log }: HttpContext, error: unknown, request: FastifyRequest): ServiceError {
  if (error instanceof ServiceError) return error;
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (
    code === 'FST_ERR_BAD_URL' ||
    code === 'FST_ERR_MAX_PARAM_LENGTH' ||
    code === 'FST_ERR_ASYNC_CONSTRAINT'
  ) {
    return new ServiceError('unknown_url', 'The path is not valid.');
  }
  log.error('unexpected error', {
    requestId: request.id,
    error: error instanceof Error ? error : String(error),
  });
  return new ServiceError('internal_error', `The service failed. The request ID is ${request.id}.`, {
    cause: error,
  });
}

function answerUnknown(context: HttpContext, request: FastifyRequest, reply: FastifyReply): void {
  reply.hijack();
  const exchange = { request: request.raw, response: reply.raw, requestId: request.id };
  const path = (request.raw.url ?? '').split('?', 1)[0] ?? '';
  const methods = methodsOf(path);
  if (!methods) {
    const fault = new ServiceError(
      'unknown_url',
      `Unknown endpoint: ${request.method} ${path.slice(0, 200)}.`,
    );
    refuse(exchange, fault, context.limits.drainBytes);
    return;
  }
  if (request.method === 'OPTIONS') {
    answerPreflight(exchange, methods);
    return;
  }
  const fault = new ServiceError(
    'method_not_allowed',
    `${path} supports ${methods.join(', ')}, not ${request.method}.`,
  );
  refuse(exchange, fault, context.limits.drainBytes, ['allow', [...methods, 'OPTIONS'].join(', ')]);
}

/** Cross-origin calls of `/v1` are allowed to all: a key authorises them, never a cookie. */
function answerPreflight(
  { request, response, requestId }: Parameters<typeof refuse>[0],
  methods: readonly string[],
): void {
  const asked = request.headers['access-control-request-headers'];
  const headers = ['x-request-id', requestId, 'allow', [...methods, 'OPTIONS'].join(', ')];
  if (request.headers.origin !== undefined && request.url?.startsWith('/v1/')) {
    headers.push('access-control-allow-origin', '*', 'access-control-allow-methods', methods.join(', '));
    headers.push('access-control-max-age', '86400', 'vary', 'Access-Control-Request-Headers');
    // Reflected one by one: `*` does not cover `Authorization`, and clients send headers of their own.
    if (typeof asked === 'string') headers.push('access-control-allow-headers', asked);
  }
  response.writeHead(204, headers);
  response.end();
}
