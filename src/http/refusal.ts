import type { IncomingMessage } from 'node:http';
import type { RefusedCaller } from '../accounts/refusals.ts';
import { ServiceError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { HttpContext } from './context.ts';
import { sendError, type Exchange } from './exchange.ts';

/** Sends, logs and counts the error of a request before a generation begins. `path` is the path of the endpoint. */
export function refuse(
  context: HttpContext,
  exchange: Exchange,
  error: unknown,
  path: string | undefined,
  caller: RefusedCaller | null,
): void {
  const { log, limits, metrics } = context;
  const { requestId } = exchange;
  const fault = error instanceof ServiceError ? error : unexpectedError(error, requestId, log);
  if (fault.status !== 401) log.info('request refused', { requestId, code: fault.code, path });
  metrics.recordRefusal(path, fault);
  countRefusal(context, exchange.request, fault, caller);
  sendError(exchange, fault, limits.drainBytes);
}

/**
 * Counts a request that was refused and has no row in the ledger. Requests of the management API are not counted, because
 * the console also sends them without a session.
 */
export function countRefusal(
  { refusals }: HttpContext,
  { url }: IncomingMessage,
  fault: ServiceError,
  caller: RefusedCaller | null,
): void {
  if (!url?.startsWith('/api/')) refusals.record(caller, fault);
}

/** Logs an error that is not a `ServiceError`, and returns an `internal_error`. */
export function unexpectedError(error: unknown, requestId: string, log: Log): ServiceError {
  log.error('unexpected error', { requestId, error: error instanceof Error ? error : String(error) });
  return internalError(error, requestId);
}

/** Returns an `internal_error` whose message contains only the request ID. */
export function internalError(cause: unknown, requestId: string): ServiceError {
  return new ServiceError('internal_error', `The service failed. The request ID is ${requestId}.`, { cause });
}
