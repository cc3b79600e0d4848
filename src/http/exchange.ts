import type { IncomingMessage, ServerResponse } from 'node:http';
import { errorBody } from '../openai/error-body.ts';
import { ServiceError } from '../errors.ts';

/** One request and its answer as Node has them, and what every answer of it carries. */
export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** Ours, a UUIDv7: `x-request-id`. */
  requestId: string;
  /** What the limits said, for the answer of a generation. */
  record?: { readonly limitHeaders: readonly string[] };
}

/** What scripts of other origins may read of an answer; `*` would not cover it for every client. */
const EXPOSED = [
  'x-request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  ...['limit', 'remaining', 'reset'].flatMap((word) => [
    `x-ratelimit-${word}-requests`,
    `x-ratelimit-${word}-tokens`,
  ]),
].join(', ');

/** OpenAI's Node client throws away a wait of more than this and retries at once, in milliseconds. */
const LONGEST_WAIT_CLIENTS_TAKE_MS = 60_000;

/** Headers of every answer, as a flat list of names and values. */
export function commonHeaders({ request, requestId, record }: Exchange): string[] {
  const headers = ['x-request-id', requestId];
  if (record) headers.push(...record.limitHeaders);
  if (request.headers.origin !== undefined && request.url?.startsWith('/v1')) {
    headers.push('access-control-allow-origin', '*', 'access-control-expose-headers', EXPOSED);
  }
  return headers;
}

/** Answers with a JSON body and ends the response. */
export function answerJson(exchange: Exchange, status: number, body: string, extra: string[] = []): void {
  const bytes = Buffer.byteLength(body);
  exchange.response.writeHead(status, jsonHeaders(exchange, bytes, extra));
  // What is ASCII is written as it lies in memory.
  exchange.response.end(body, bytes === body.length ? 'latin1' : 'utf8');
}

/** Answers without a body and ends the response. */
export function answerNothing(exchange: Exchange, status: number, extra: string[]): void {
  exchange.response.writeHead(status, [...commonHeaders(exchange), 'content-length', '0', ...extra]);
  exchange.response.end();
}

function jsonHeaders(exchange: Exchange, bytes: number, extra: readonly string[]): string[] {
  const headers = commonHeaders(exchange);
  headers.push('content-type', 'application/json', 'content-length', String(bytes), ...extra);
  return headers;
}

/**
 * Answers with the error in its wire shape. Where the request's body has not all arrived, what comes of it is
 * read and thrown away, up to `drainBytes`, before the connection may go: a client that is still sending would
 * otherwise see a reset and not the answer.
 */
export function refuse(
  exchange: Exchange,
  error: ServiceError,
  drainBytes: number,
  extra: string[] = [],
): void {
  const { request, response } = exchange;
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const body = errorBody(error);
  const headers = jsonHeaders(exchange, Buffer.byteLength(body), extra);
  if (error.status === 401) headers.push('www-authenticate', 'Bearer');
  headers.push(...retryHeaders(error));
  response.writeHead(error.status, headers);
  if (request.complete) {
    response.end(body);
    return;
  }
  response.write(body);
  drain(exchange, drainBytes);
}

/** Headers of a 503 that does not know better when to come again. */
export const RETRY_SOON: string[] = ['retry-after', '1', 'retry-after-ms', '1000'];

function retryHeaders(error: ServiceError): string[] {
  if (error.retryAfterMs === undefined) {
    if (error.status === 503) return RETRY_SOON;
    // A limit that waiting does not help against.
    return error.status === 429 ? ['x-should-retry', 'false'] : [];
  }
  const waitMs = Math.ceil(error.retryAfterMs);
  const headers = [
    'retry-after',
    String(Math.max(1, Math.ceil(waitMs / 1000))),
    'retry-after-ms',
    String(waitMs),
  ];
  if (waitMs > LONGEST_WAIT_CLIENTS_TAKE_MS) headers.push('x-should-retry', 'false');
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
