import { kindOfPath } from '../openai/endpoints.ts';
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { peek, type Accounting } from '../inference/request-accounting.ts';

/** Fastify's requests by Node's, once they are authenticated. Errors of Node's HTTP parser bypass Fastify. */
export const authenticatedRequests = new WeakMap<IncomingMessage, FastifyRequest>();

/**
 * Returns the `x-ratelimit-*` headers of a generation that was refused before its limits were applied. Returns no
 * headers for other endpoints, for unknown callers, or if the limits cannot be read. `model` is null if the body has
 * not been parsed.
 */
export async function limitHeaders(
  accounting: Accounting,
  { caller, routeOptions }: FastifyRequest,
  model: string | null = null,
): Promise<readonly string[]> {
  if (caller === null || kindOfPath(routeOptions.url ?? '') === undefined) return [];
  return await peek(accounting, caller, model).catch(() => []);
}
