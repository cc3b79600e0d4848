import { randomUUIDv7 } from 'node:crypto';
import type { Socket } from 'node:net';
import { STATUS_CODES } from 'node:http';
import { ServiceError } from '../errors.ts';
import { errorBody } from '../openai/error-body.ts';

/** What Node's HTTP parser refuses, in the shape of every other error. No request object exists here. */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable || answerBegun(socket)) {
    socket.destroy();
    return;
  }
  const fault = translate(error.code);
  const body = errorBody(fault);
  const head = [
    `HTTP/1.1 ${fault.status} ${STATUS_CODES[fault.status] ?? ''}`,
    `x-request-id: ${randomUUIDv7()}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroySoon());
}

function translate(code: string | undefined): ServiceError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new ServiceError('headers_too_large', 'The headers of the request are too large.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ServiceError('request_timeout', 'The request did not arrive whole in time.');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new ServiceError('request_too_large', 'The chunk extensions of the request are too large.');
    default:
      return new ServiceError('invalid_value', 'The request is not valid HTTP/1.1.');
  }
}

/** Whether a byte of an answer to this connection's current request has gone out: no second one may follow. */
function answerBegun(socket: Socket): boolean {
  // Node keeps the response that a socket is writing under this name; its own `clientError` default reads it too.
  const current = (socket as Socket & { _httpMessage?: { headersSent: boolean } | null })._httpMessage;
  return current?.headersSent === true;
}
