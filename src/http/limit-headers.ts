import type { IncomingMessage } from 'node:http';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import { currentHeaders, type Accounting } from '../inference/request-accounting.ts';

/** A request whose key is valid. */
interface AuthenticatedRequest {
  readonly requestId: string;
  /** The caller of a generation. Null for other endpoints, which have no limits. */
  readonly caller: AuthenticatedKey | null;
}

const AUTHENTICATED = Symbol('authenticated');

/**
 * The authenticated requests. An error of Node's HTTP parser contains only the connection; the request ID and the caller for
 * its response are read from here. A property of the request, because a `WeakMap` costs each garbage collection time.
 */
export const authenticatedRequests = {
  set(
    request: IncomingMessage & { [AUTHENTICATED]?: AuthenticatedRequest },
    value: AuthenticatedRequest,
  ): void {
    request[AUTHENTICATED] = value;
  },
  get(
    request: IncomingMessage & { [AUTHENTICATED]?: AuthenticatedRequest },
  ): AuthenticatedRequest | undefined {
    return request[AUTHENTICATED];
  },
};

/**
 * Returns the `x-ratelimit-*` headers of a request that was refused before its limits were applied, or that gets the
 * response of an earlier request. Returns no headers without a caller, or if the limits cannot be read. `model` is null
 * if the body has not been parsed.
 */
export async function limitHeaders(
  accounting: Accounting,
  caller: AuthenticatedKey | null,
  model: string | null = null,
): Promise<readonly string[]> {
  return caller === null ? [] : await currentHeaders(accounting, caller, model).catch(() => []);
}
