import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ServiceError } from '../../errors.ts';
import type { Protocol } from '../../protocol.ts';

const VALID = /^[\x20-\x7e]{1,255}$/;

/**
 * Returns the value of the `Idempotency-Key` header, without the quotes that surround it in the form of the IETF draft
 * (draft-ietf-httpapi-idempotency-key-header). Throws a `ServiceError` `invalid_value` unless there is one header with
 * 1 to 255 printable ASCII characters.
 */
export function readIdempotencyKey({ headersDistinct }: IncomingMessage): string {
  const [value = '', ...more] = headersDistinct['idempotency-key'] ?? [];
  if (more.length > 0) {
    throw new ServiceError('invalid_value', 'The request has more than one `Idempotency-Key` header.');
  }
  const key = /^"(.*)"$/.exec(value)?.[1] ?? value;
  if (VALID.test(key)) return key;
  throw new ServiceError(
    'invalid_value',
    'The `Idempotency-Key` header must have 1 to 255 printable ASCII characters.',
  );
}

/** Returns a hash of the endpoint and of the bytes of the body. */
export function fingerprintOf({ id }: Protocol, body: Uint8Array): string {
  return `${id}:${hash('sha256', body, 'base64url')}`;
}
