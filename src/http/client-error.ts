import { randomUUIDv7 } from 'node:crypto';
import type { Socket } from 'node:net';
import type { ServerResponse } from 'node:http';
import { ServiceError } from '../core/errors.ts';
import { errorBody } from '../core/error-body.ts';
import type { HttpContext } from './context.ts';
import { identityHeaders, retryHeaders } from './exchange.ts';
import { authenticatedRequests, limitHeaders } from './limit-headers.ts';
import { languageOf } from './protocols.ts';

// An `import` would read all properties of the module, and one of them loads Node's `fetch`.
const { STATUS_CODES } = process.getBuiltinModule('node:http');

/** Responds to a request that Node's HTTP parser rejected. */
export async function respondToClientError(
  context: HttpContext,
  error: Error & { code?: string },
  socket: Socket,
): Promise<void> {
  if (error.code === 'ECONNRESET' || !socket.writable) socket.destroy();
  else await refuseConnection(context, errorOfParser(error.code), socket);
}

/** Responds 405 to `CONNECT`, for which Node passes only the connection. */
export function refuseConnect(context: HttpContext, socket: Socket): Promise<void> {
  const fault = new ServiceError('method_not_allowed', 'CONNECT is not supported: this is not a proxy.');
  return refuseConnection(context, fault, socket);
}

/** Responds 408 to a request that did not arrive in time, unless the rest arrives while its limits are read. */
export function refuseLateRequest(context: HttpContext, socket: Socket): Promise<void> {
  const response = currentResponse(socket);
  const isLate = () => currentResponse(socket) === response && response?.req.complete !== true;
  const fault = new ServiceError('request_timeout', 'The request did not arrive in time.');
  return refuseConnection(context, fault, socket, isLate);
}

/**
 * Sends an error response unless a response has begun, then closes the connection. `isCurrent`: whether the fault is still
 * one after the limits were read, which can take a while.
 */
async function refuseConnection(
  context: HttpContext,
  fault: ServiceError,
  socket: Socket,
  isCurrent: () => boolean = () => true,
): Promise<void> {
  const response = currentResponse(socket);
  const request = response ? authenticatedRequests.get(response.req) : undefined;
  const limits = await limitHeaders(context.inference.accounting, request?.caller ?? null);
  if (!isCurrent()) return;
  if (!socket.writable || currentResponse(socket)?.headersSent) {
    socket.destroy();
    return;
  }
  context.refusals.record(request?.caller ?? null, fault);
  const protocol = response === null ? undefined : languageOf(response.req);
  const requestId = request?.requestId ?? randomUUIDv7();
  const body = protocol === undefined ? errorBody(fault) : protocol.errorBody(fault, requestId);
  const status = protocol?.errorStatus(fault) ?? fault.status;
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    ...headerLines([...identityHeaders(protocol, requestId, limits), ...retryHeaders(fault)]),
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroySoon());
}

function errorOfParser(code: string | undefined): ServiceError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new ServiceError('headers_too_large', 'The headers of the request are too large.');
    case 'HPE_INVALID_VERSION':
      return new ServiceError('unsupported_http_version', 'The request is not HTTP/1.0 or HTTP/1.1.');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new ServiceError('request_too_large', 'The chunk extensions of the request are too large.');
    default:
      return new ServiceError('invalid_value', 'The request is not valid HTTP/1.1.');
  }
}

/** Returns the response that a connection is sending or will send next; null: none. */
export function currentResponse(socket: Socket): ServerResponse | null {
  // Node's default handler of `clientError` reads this property too.
  return (socket as Socket & { _httpMessage?: ServerResponse | null })._httpMessage ?? null;
}

/** Formats a list of alternating header names and values as header lines. */
function headerLines(headers: readonly string[]): string[] {
  return headers.flatMap((name, index) => (index % 2 === 0 ? [`${name}: ${headers[index + 1]}`] : []));
}
