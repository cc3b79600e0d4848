import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../core/errors.ts';

/** A bit for each header that may occur only once. Node and a proxy may interpret repeated ones differently. */
const SINGLE: ReadonlyMap<string, number> = new Map(
  ['host', 'authorization', 'x-api-key', 'content-length', 'transfer-encoding', 'content-encoding'].map(
    (name, index) => [name, 1 << index],
  ),
);
const SINGLE_LENGTHS = new Set(SINGLE.keys().map(({ length }) => length));

/**
 * Returns an error for requests that servers may interpret differently, to prevent request smuggling through a proxy:
 * repeated headers, any `Transfer-Encoding` except `chunked` on HTTP/1.1, and HTTP/1.1 without `Host`. Also
 * returns one for `Content-Encoding`, because bodies are not decoded. Returns null if the request is valid.
 */
export function violation(request: IncomingMessage): ServiceError | null {
  const { rawHeaders, headers, httpVersion } = request;
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return new ServiceError(
      'unsupported_http_version',
      `HTTP/${httpVersion} is not supported. Use HTTP/1.1.`,
    );
  }
  let seen = 0;
  // If each name has a member of its own, none is repeated.
  const end = 2 * Object.keys(headers).length === rawHeaders.length ? 0 : rawHeaders.length;
  for (let index = 0; index < end; index += 2) {
    const rawName = rawHeaders[index] ?? '';
    // Avoids converting most names.
    if (!SINGLE_LENGTHS.has(rawName.length)) continue;
    const name = rawName.toLowerCase();
    const bit = SINGLE.get(name) ?? 0;
    if ((seen & bit) !== 0) return invalid(`The request has more than one \`${name}\` header.`);
    seen |= bit;
  }
  if (headers.host === undefined && httpVersion === '1.1')
    return invalid('The request has no `Host` header.');
  const coding = headers['transfer-encoding'];
  if (coding !== undefined) {
    if (httpVersion !== '1.1') return invalid('The `Transfer-Encoding` header is not allowed with HTTP/1.0.');
    if (coding.toLowerCase() !== 'chunked')
      return invalid('The `Transfer-Encoding` header must be `chunked`.');
  }
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    return new ServiceError(
      'unsupported_content_encoding',
      'Compressed request bodies are not supported. Send the body without a `Content-Encoding` header.',
    );
  }
  return null;
}

function invalid(message: string): ServiceError {
  return new ServiceError('invalid_value', message);
}
