import type { ServerResponse } from 'node:http';
import { ServiceError } from '../errors.ts';
import type { Log } from '../log.ts';
import { errorBody } from '../openai/error-body.ts';

/** Sends a whole JSON answer. */
export function sendJson(response: ServerResponse, status: number, body: string): void {
  const bytes = Buffer.from(body);
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': bytes.length });
  response.end(bytes);
}

/** Sends an error as its status and body, with the headers that say when to come again. */
export function sendError(response: ServerResponse, error: unknown, log: Log): void {
  const fault = serviceError(error, log);
  if (fault.retryAfterMs !== undefined) {
    response.setHeader('Retry-After', Math.max(1, Math.ceil(fault.retryAfterMs / 1000)));
    response.setHeader('Retry-After-Ms', fault.retryAfterMs);
  }
  // What is left of an unread body would be read as the next request.
  if (!response.req.complete) response.setHeader('Connection', 'close');
  sendJson(response, fault.status, errorBody(fault));
}

/** The error as one of the table; one that is not is a fault of the engine, and is logged. */
export function serviceError(error: unknown, log: Log): ServiceError {
  if (error instanceof ServiceError) return error;
  log.error('the engine failed', { error: error instanceof Error ? error : String(error) });
  return new ServiceError('internal_error', 'The engine failed.', { cause: error });
}
