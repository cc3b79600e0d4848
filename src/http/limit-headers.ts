import { kindOfPath } from '../openai/endpoints.ts';
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { peek, type Accounting } from '../inference/request-accounting.ts';

/** Authenticated requests by their messages, for errors of Node's parser. */
export const authenticatedRequests = new WeakMap<IncomingMessage, FastifyRequest>();

/**
 * Returns the `x-ratelimit-*` headers of a generation that was refused before its limits were applied; none for other
 * endpoints and unknown callers. `model` is null if the body has not been parsed. Returns none instead of rejecting.
 */
export async function limitHeaders(
  accounting: Accounting,
  { caller, routeOptions }: FastifyRequest,
  model: string | null = null,
): Promise<readonly string[]> {
  if (caller === null || kindOfPath(routeOptions.url ?? '') === undefined) return [];
  return await peek(accounting, caller, model).catch(() => []);
}
