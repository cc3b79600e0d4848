import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import { LIMIT_HEADERS } from '../accounts/limits/limit-status.ts';
import { limitHeader } from '../protocols/anthropic/headers.ts';
import { errorBody } from '../core/error-body.ts';
import type { JsonBody } from '../json/json-thread.ts';
import { ServiceError } from '../core/errors.ts';
import type { Notes } from '../core/notes.ts';
import type { Protocol } from '../core/protocol.ts';
import type { BodyReservation } from './body.ts';
import { languageOf } from './protocols.ts';

/** A request and its response, without Fastify's objects. */
export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** A UUIDv7: `x-request-id`. */
  requestId: string;
  /** Whose errors are sent. Absent: OpenAI's. */
  readonly protocol?: Protocol;
  /** For generations: the `x-ratelimit-*` headers, and what has no effect in the request. */
  record?: { readonly limitHeaders: readonly string[]; readonly notes?: Notes };
  /** Whether the response belongs to an earlier request with the same `Idempotency-Key`. */
  replay?: boolean;
}

/** A request to a generation endpoint. */
export interface GenerationExchange extends Exchange {
  readonly protocol: Protocol;
  /** The client's address; null: it has disconnected. */
  readonly ip: string | null;
  /** The program that sent it, as `clientName` returns it. */
  readonly client: string;
  /** Null before authentication. */
  caller: AuthenticatedKey | null;
  /** The memory reserved for the body; null: no body. */
  bodyMemory: BodyReservation | null;
  /** Null before the body is read and after it is parsed. */
  body: JsonBody | null;
  /** Whether each step of the request has a turn of the event loop of its own. */
  isLarge: boolean;
  /** The value of `Idempotency-Key`; null: none. */
  idempotencyKey: string | null;
  /** The hash of the body of a request with an idempotency key; empty before the body is read. */
  fingerprint: string;
}

/**
 * Response headers that scripts of other origins may read. Lists each name, because not every client supports `*`.
 */
const EXPOSED = [
  'x-request-id',
  'request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'x-sluice-idempotent-replay',
  'x-sluice-notes',
  ...LIMIT_HEADERS,
  ...LIMIT_HEADERS.map(limitHeader),
].join(', ');

/** Longest wait, in milliseconds, that OpenAI's Node client respects. If the wait is longer, it retries soon. */
const MAX_CLIENT_WAIT_MS = 60_000;

/** Takes over the response from Fastify. */
export function takeOver(request: FastifyRequest, reply: FastifyReply): Exchange {
  reply.hijack();
  const protocol = languageOf(request.raw);
  const exchange = { request: request.raw, response: reply.raw, requestId: request.id };
  return protocol === undefined ? exchange : { ...exchange, protocol };
}

/** Returns the headers of every response, as names and values in turn. */
export function commonHeaders({ request, requestId, record, replay, protocol }: Exchange): string[] {
  const headers = identityHeaders(protocol, requestId, record?.limitHeaders ?? []);
  if (record?.notes !== undefined && record.notes.count > 0)
    headers.push('x-sluice-notes', record.notes.header());
  if (replay) headers.push('x-sluice-idempotent-replay', 'true');
  if (request.headers.origin !== undefined && request.url?.startsWith('/v1')) {
    headers.push('access-control-allow-origin', '*', 'access-control-expose-headers', EXPOSED);
  }
  return headers;
}

/** Returns the headers with the ID and the limits of a request, in the form of its protocol. */
export function identityHeaders(
  protocol: Protocol | undefined,
  requestId: string,
  limits: readonly string[],
): string[] {
  const own = protocol?.headers?.(requestId, limits);
  return own ? [...own] : ['x-request-id', requestId, ...limits];
}

/** Sends a JSON body, which may be in parts, and ends the response. */
export function sendJson(
  exchange: Exchange,
  status: number,
  body: string | readonly Buffer[],
  extra: string[] = [],
): void {
  const { response } = exchange;
  if (typeof body === 'string') {
    const bytes = Buffer.byteLength(body);
    response.writeHead(status, jsonHeaders(exchange, bytes, extra));
    // Writing ASCII as Latin-1 avoids encoding it.
    response.end(body, bytes === body.length ? 'latin1' : 'utf8');
    return;
  }
  const bytes = body.reduce((sum, part) => sum + part.length, 0);
  response.writeHead(status, jsonHeaders(exchange, bytes, extra));
  for (const part of body) response.write(part);
  response.end();
}

/** Sends a response without a body. */
export function sendEmpty(exchange: Exchange, status: number, extra: string[]): void {
  exchange.response.writeHead(status, [...commonHeaders(exchange), 'content-length', '0', ...extra]);
  exchange.response.end();
}

function jsonHeaders(exchange: Exchange, bytes: number, extra: readonly string[]): string[] {
  const headers = commonHeaders(exchange);
  headers.push('content-type', 'application/json', 'content-length', String(bytes), ...extra);
  return headers;
}

/**
 * Sends an error, or closes the connection if the response has begun. Reads and discards the rest of the request's
 * body, up to `drainBytes`: a client that is still sending would otherwise see a reset instead of the response.
 */
export function sendError(
  exchange: Exchange,
  error: ServiceError,
  drainBytes: number,
  extra: string[] = [],
): void {
  const { request, response, protocol } = exchange;
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const body = protocol === undefined ? errorBody(error) : protocol.errorBody(error, exchange.requestId);
  const headers = jsonHeaders(exchange, Buffer.byteLength(body), extra);
  if (error.status === 401) headers.push('www-authenticate', 'Bearer');
  headers.push(...retryHeaders(error));
  response.writeHead(protocol?.errorStatus(error) ?? error.status, headers);
  if (request.complete) {
    response.end(body);
    return;
  }
  response.write(body);
  drain(exchange, drainBytes);
}

/** Headers of a 503 without a known wait. */
export const RETRY_SOON: string[] = ['retry-after', '1', 'retry-after-ms', '1000'];

/**
 * Statuses of errors that another attempt may not get. All others have the same result, or, like a response that takes too
 * long, cost as much again.
 */
const MAY_SUCCEED_LATER: ReadonlySet<number> = new Set([408, 409, 500]);

export function retryHeaders(error: ServiceError): string[] {
  if (error.retryAfterMs === undefined) {
    if (error.status === 503) return RETRY_SOON;
    return MAY_SUCCEED_LATER.has(error.status) ? [] : ['x-should-retry', 'false'];
  }
  const waitMs = Math.ceil(error.retryAfterMs);
  const headers = [
    'retry-after',
    String(Math.max(1, Math.ceil(waitMs / 1000))),
    'retry-after-ms',
    String(waitMs),
  ];
  if (waitMs > MAX_CLIENT_WAIT_MS) headers.push('x-should-retry', 'false');
  return headers;
}

function drain({ request, response }: Exchange, drainBytes: number): void {
  let left = drainBytes;
  request.on('data', (bytes: Buffer) => {
    left -= bytes.length;
    if (left < 0) request.destroy();
  });
  request.once('end', () => response.end());
  request.once('error', () => response.destroy());
  request.resume();
}
