import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { watchConnections } from '../support/connection-watch.ts';
import { ServiceError } from '../core/errors.ts';
import { totalChoices, type GenerationRequest, type EngineEvent } from '../core/generation.ts';
import type { Log } from '../support/log.ts';
import { jsonBody } from '../json/json-thread.ts';
import type { Secret } from '../support/secret.ts';
import { EventStream, WriteQueue, type EventStreamOptions } from '../support/event-stream.ts';
import { errorBody } from '../core/error-body.ts';
import { stallLimitMs, type EngineHealthBody, type Engine } from './engine.ts';
import {
  COUNT_PATH,
  ENGINE_PROTOCOL,
  GENERATE_PATH,
  ENGINE_VALUES,
  readEngineRequest,
  EVENT_FRAMES,
  FORGET_PATH,
  type ForgetBody,
  formatErrorFrame,
  formatFrame,
  KEEP_ALIVE_FRAME,
  type PromptCountBody,
} from './engine-protocol.ts';

// Importing a built-in module reads all of its properties, which would load Node's `fetch`.
const { createServer } = process.getBuiltinModule('node:http');

/** Port 0 selects any free port. Without `apiKey`, the server does not authenticate requests. */
export type ListenAddress = { socketPath: string } | { host: string; port: number; apiKey?: Secret };

export interface EngineServerOptions {
  /** Maximum choices of a request, over all prompts. */
  maxChoices: number;
  /** The only model. Requests for other models get 404 `model_not_found`. */
  modelId: string;
  log: Log;
  /** Maximum request body, in bytes; larger ones get 413. Default: 64 MiB; none on a socket, as the service has one. */
  bodyBytes?: number;
  /** Called before the response is written. Tests inject faults here. */
  beforeResponse?: (request: GenerationRequest, response: ServerResponse) => void;
}

export interface EngineServer {
  /** `http://host:port`, or the path of the socket. */
  readonly address: string;
  /** Null on a Unix socket. */
  readonly port: number | null;
  /** Refuses new requests (503 `shutting_down`) and resolves when the running ones have ended. */
  close(): Promise<void>;
}

/** Serves an engine to services over HTTP: generations, the model, health. Rejects if it cannot listen. */
export async function serveEngine(
  engine: Engine,
  listen: ListenAddress,
  options: EngineServerOptions,
): Promise<EngineServer> {
  const handler = new RequestHandler(engine, listen, options);
  const server = createServer({ noDelay: true }, (request, response) => {
    void handler.handle(request, response);
  });
  watchConnections(server, CONNECTION_LIMITS, (socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    if ('socketPath' in listen) server.listen(listen.socketPath, resolve);
    else server.listen(listen.port, listen.host, resolve);
  });
  return {
    address: 'socketPath' in listen ? listen.socketPath : `http://${urlHost(listen.host)}:${portOf(server)}`,
    port: portOf(server),
    close: () => handler.close(server),
  };
}

/** Clients learn `idleMs` from the `Keep-Alive` header and close idle connections before the server does. */
const CONNECTION_LIMITS = { requestMs: 60_000, stallMs: 60_000, idleMs: 75_000 };

const DEFAULT_MAX_BODY_BYTES = 64 * 1024 * 1024;

class RequestHandler {
  readonly #engine: Engine;
  readonly #options: EngineServerOptions;
  readonly #keyHash: Buffer | null;
  readonly #maxBodyBytes: number;
  readonly #writes = new WriteQueue();
  /** With the keep-alive frames, a service can distinguish a long wait or prefill from a stuck engine. */
  readonly #streamOptions: EventStreamOptions = {
    keepAlives: {
      holdMs: HOLD_MS,
      keepAliveMs: KEEP_ALIVE_MS,
      alive: () => {
        const health = this.#engine.health();
        return (health.lastStepAgeMs ?? 0) <= stallLimitMs(MAX_STEP_AGE_MS, health);
      },
      keepAlive: () => KEEP_ALIVE_FRAME,
    },
    contentType: EVENT_FRAMES,
  };
  #closing: Server | null = null;

  constructor(engine: Engine, listen: ListenAddress, options: EngineServerOptions) {
    const apiKey = 'apiKey' in listen ? listen.apiKey : undefined;
    this.#engine = engine;
    this.#options = options;
    this.#keyHash = apiKey ? sha256(`Bearer ${apiKey.reveal()}`) : null;
    this.#maxBodyBytes = options.bodyBytes ?? ('socketPath' in listen ? Infinity : DEFAULT_MAX_BODY_BYTES);
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('close', () => this.#closing?.closeIdleConnections());
    try {
      const path = request.url?.split('?', 1)[0] ?? '';
      if (path === '/health') return this.#get(request, response, this.#health());
      this.#authenticate(request);
      if (path === '/model') return this.#get(request, response, this.#engine.describe());
      if (path.startsWith('/v1/')) throw tooOld();
      if (path !== GENERATE_PATH && path !== COUNT_PATH && path !== FORGET_PATH) {
        throw new ServiceError('unknown_url', 'Unknown endpoint. Only a Sluice service can use this engine.');
      }
      if (request.method !== 'POST') throw notAllowed(response, 'POST');
      if (this.#closing)
        throw new ServiceError('shutting_down', 'The engine is stopping.', { retryAfterMs: 1000 });
      const body = await jsonBody(await readBody(request, this.#maxBodyBytes), ENGINE_VALUES);
      // The client may have disconnected while a large body was parsed.
      if (response.closed) return;
      if (path === FORGET_PATH) return this.#forget(body(), response);
      const generation = this.#accept(readEngineRequest(body()));
      if (path === COUNT_PATH) return await this.#count(generation, response);
      this.#options.beforeResponse?.(generation, response);
      // An injected fault may have completed the response.
      if (!response.writableEnded) await this.#respond(generation, response);
    } catch (error) {
      // The client may have disconnected while it sent the body.
      if (!response.destroyed) sendError(response, error, this.#options.log);
    }
  }

  async close(server: Server): Promise<void> {
    this.#closing = server;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeIdleConnections();
    await closed;
  }

  /**
   * Responds with event frames. Resolves when the response has been written or the client has disconnected. Never rejects.
   */
  async #respond(request: GenerationRequest, response: ServerResponse): Promise<void> {
    const disconnect = disconnectOf(response);
    using stream = new EventStream(response, this.#writes, this.#streamOptions);
    try {
      for await (const event of await this.#engine.generate(request, disconnect)) {
        const drained =
          'text' in event && event.text.length > MAX_TEXT
            ? writeParts(stream, event)
            : stream.write(formatFrame(event));
        if (drained) await drained;
      }
      stream.end('');
    } catch (error) {
      if (disconnect.aborted) return;
      if (stream.opened) stream.end(formatErrorFrame(serviceError(error, this.#options.log)));
      else sendError(response, error, this.#options.log);
    }
  }

  #health(): EngineHealthBody {
    return { protocol: ENGINE_PROTOCOL, ...this.#engine.health(), memoryBytes: process.memoryUsage.rss() };
  }

  async #count(request: GenerationRequest, response: ServerResponse): Promise<void> {
    const promptTokens = await this.#engine.countPromptTokens(request, disconnectOf(response));
    sendJson(response, 200, JSON.stringify({ promptTokens } satisfies PromptCountBody));
  }

  #forget({ cacheScope }: Partial<ForgetBody>, response: ServerResponse): void {
    if (typeof cacheScope !== 'string')
      throw new ServiceError('invalid_value', '`cacheScope` must be a string.', { param: 'cacheScope' });
    this.#engine.forget(cacheScope);
    sendJson(response, 200, '{}');
  }

  /** Returns a request that the engine may run. */
  #accept(request: GenerationRequest): GenerationRequest {
    const { modelId, maxChoices } = this.#options;
    if (request.model !== modelId)
      throw new ServiceError('model_not_found', 'This engine serves a different model.', { param: 'model' });
    if (totalChoices(request) > maxChoices)
      throw new ServiceError('invalid_value', `This engine generates at most ${maxChoices} choices.`, {
        param: 'n',
      });
    return request;
  }

  #get(request: IncomingMessage, response: ServerResponse, body: object): void {
    if (request.method !== 'GET') throw notAllowed(response, 'GET');
    sendJson(response, 200, JSON.stringify(body));
  }

  #authenticate(request: IncomingMessage): void {
    if (!this.#keyHash) return;
    const received = sha256(request.headers.authorization ?? '');
    if (!timingSafeEqual(received, this.#keyHash)) {
      throw new ServiceError(
        'invalid_api_key',
        'A valid API key is required: send it as `Authorization: Bearer <key>`.',
      );
    }
  }
}

/**
 * Services from before the engine protocol use the paths of OpenAI. After a 503 they send requests to other replicas, and
 * if their health check cannot read the list of models, they report the engine as down.
 */
function tooOld(): ServiceError {
  return new ServiceError(
    'engine_unavailable',
    `This engine only speaks version ${ENGINE_PROTOCOL} of the engine protocol. Install the same version of Sluice for the service and its engines.`,
  );
}

function notAllowed(response: ServerResponse, method: string): ServiceError {
  response.setHeader('Allow', method);
  return new ServiceError('method_not_allowed', `This endpoint only supports ${method}.`);
}

function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    const parts: Buffer<ArrayBuffer>[] = [];
    let bytes = 0;
    request.on('data', (part: Buffer<ArrayBuffer>) => {
      bytes += part.length;
      if (bytes > maxBytes) {
        request.removeAllListeners('data').pause();
        reject(new ServiceError('request_too_large', `The request body is larger than ${maxBytes} bytes.`));
      } else parts.push(part);
    });
    request.on('end', () => resolve(parts.length === 1 && parts[0] ? parts[0] : Buffer.concat(parts)));
    request.on('error', reject);
    request.on('close', () => reject(new Error('the client disconnected while sending the request')));
  });
}

function portOf(server: Server): number | null {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : null;
}

function urlHost(host: string): string {
  return host.includes(':') ? `[${host}]` : host;
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Time that a request waits for a slot before the first keep-alive frame, in milliseconds. */
const HOLD_MS = 1000;

/** Time without an event before a keep-alive frame, in milliseconds. */
const KEEP_ALIVE_MS = 10_000;

/** Age of the last step beyond which no keep-alive frame is sent, in milliseconds. Longer if the engine is slow. */
const MAX_STEP_AGE_MS = 30_000;

/** Maximum text of an event in a stream, in characters. Longer texts, such as echoed prompts, are split. */
const MAX_TEXT = 65_536;

/** Returns a signal that aborts if the client disconnects before the end of its response. */
function disconnectOf(response: ServerResponse): AbortSignal {
  const disconnect = new AbortController();
  response.on('close', () => {
    if (!response.writableEnded) disconnect.abort();
  });
  return disconnect.signal;
}

/** Writes an event as several. Only the last one has the log probabilities and token IDs, because its tokens end there. */
async function writeParts(stream: EventStream, event: Extract<EngineEvent, { text: string }>): Promise<void> {
  let rest = event.text;
  while (rest.length > MAX_TEXT) {
    const part = { ...event, text: rest.slice(0, partLength(rest)) };
    if ('logprobs' in part) part.logprobs = null;
    delete part.tokenIds;
    await stream.write(formatFrame(part));
    rest = rest.slice(part.text.length);
  }
  await stream.write(formatFrame({ ...event, text: rest }));
}

/** Returns the length of the first part of a text, which does not end inside a surrogate pair. */
function partLength(text: string): number {
  return text.slice(0, MAX_TEXT).isWellFormed() ? MAX_TEXT : MAX_TEXT - 1;
}

export function sendJson(response: ServerResponse, status: number, body: string): void {
  const bytes = Buffer.from(body);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': bytes.length });
  response.end(bytes);
}

function sendError(response: ServerResponse, cause: unknown, log: Log): void {
  const error = serviceError(cause, log);
  if (error.retryAfterMs !== undefined) {
    response.setHeader('Retry-After', Math.max(1, Math.ceil(error.retryAfterMs / 1000)));
    response.setHeader('Retry-After-Ms', error.retryAfterMs);
  }
  // Otherwise, the rest of an unread body would be parsed as the next request.
  if (!response.req.complete) response.setHeader('Connection', 'close');
  sendJson(response, error.status, errorBody(error));
}

/** Logs any error but a `ServiceError`, and converts it to `internal_error`. */
function serviceError(error: unknown, log: Log): ServiceError {
  if (error instanceof ServiceError) return error;
  log.error('the engine failed', { error: error instanceof Error ? error : String(error) });
  return new ServiceError('internal_error', 'The engine failed.', { cause: error });
}
