import type { IncomingMessage } from 'node:http';
import type { RefusedCaller } from '../accounts/refusals.ts';
import { ServiceError } from '../core/errors.ts';
import type { Log } from '../support/log.ts';
import type { HttpContext } from './context.ts';
import { sendError, type Exchange } from './exchange.ts';

/**
 * Sends and counts the error of a request before a generation begins. `path` is the path of the endpoint. Logs only
 * requests with a valid key or session (`signedIn`), because anyone could fill the log with others.
 */
export function refuse(
  context: HttpContext,
  exchange: Exchange,
  error: unknown,
  path: string | undefined,
  caller: RefusedCaller | null,
  signedIn = false,
): void {
  const { log, settings, metrics } = context;
  const { requestId } = exchange;
  const fault = error instanceof ServiceError ? error : unexpectedError(error, requestId, log);
  if (caller !== null || signedIn) log.info('request refused', { requestId, code: fault.code, path });
  metrics.recordRefusal(path, fault);
  countRefusal(context, exchange.request, fault, caller, signedIn);
  sendError(exchange, fault, settings.limits.drainBytes);
}

/** Counts and sends the error of a request that is refused before its caller is known. `extra`: further headers. */
export function refuseUnread(
  context: HttpContext,
  exchange: Exchange,
  fault: ServiceError,
  extra: string[] = [],
): void {
  countRefusal(context, exchange.request, fault, null);
  sendError(exchange, fault, context.settings.limits.drainBytes, extra);
}

/**
 * Counts a request that was refused and has no row in the ledger. Of the management API, only requests without a key or
 * session are counted, such as failed sign-ins. A 401 is not: the console gets one before each sign-in.
 */
export function countRefusal(
  { refusals }: HttpContext,
  { url }: IncomingMessage,
  fault: ServiceError,
  caller: RefusedCaller | null,
  signedIn = false,
): void {
  const isManagement = url?.startsWith('/api/') ?? false;
  if (isManagement && (caller !== null || signedIn || fault.status === 401)) return;
  refusals.record(caller, fault);
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
