import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../errors.ts';

/** Headers of which a request has one at most. Node keeps the first of several, and a proxy may have read another. */
const SINGLE = new Set(['host', 'authorization', 'content-length', 'transfer-encoding', 'content-encoding']);
const SINGLE_LENGTHS = new Set([...SINGLE].map(({ length }) => length));

/**
 * Refuses what servers read in different ways, so that no proxy in front of this one takes a request for another:
 * repeated headers, `Transfer-Encoding` other than `chunked` or on HTTP/1.0, and HTTP/1.1 without `Host`. Refuses also a
 * `Content-Encoding`, since bodies are not decoded. Null: the request is fine.
 */
export function violation(request: IncomingMessage): ServiceError | null {
  const { rawHeaders, headers, httpVersion } = request;
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    return new ServiceError(
      'unsupported_http_version',
      `HTTP/${httpVersion} is not supported. Use HTTP/1.1.`,
    );
  }
  let seen = '';
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const written = rawHeaders[index] ?? '';
    // Most names have another length than these, and need not be converted.
    if (!SINGLE_LENGTHS.has(written.length)) continue;
    const name = written.toLowerCase();
    if (!SINGLE.has(name)) continue;
    if (seen.includes(`${name}\n`)) return invalid(`The request has more than one \`${name}\` header.`);
    seen += `${name}\n`;
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
