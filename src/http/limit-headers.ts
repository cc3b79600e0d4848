import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { peek, type Accounting } from '../inference/request-accounting.ts';

/** The endpoints whose answers tell what is left of the caller's limits. */
const GENERATIONS: ReadonlySet<string | undefined> = new Set(['/v1/chat/completions', '/v1/completions']);

/** Requests whose caller is known, by what Node's parser has of them when it gives them up. */
const authenticated = new WeakMap<IncomingMessage, FastifyRequest>();

/** Notes whose request this is, for an answer that no route gives any more. */
export function noteCaller(request: FastifyRequest): void {
  authenticated.set(request.raw, request);
}

/** The request of this message, if its caller is known. */
export function requestOf(message: IncomingMessage): FastifyRequest | undefined {
  return authenticated.get(message);
}

/**
 * The `x-ratelimit-*` headers for a generation that is refused before its limits were asked; none for other
 * endpoints and unknown callers. `model` is null while the body has not told it. Never rejects: an answer without
 * them is better than none.
 */
export async function limitHeaders(
  accounting: Accounting,
  { caller, routeOptions }: FastifyRequest,
  model: string | null = null,
): Promise<readonly string[]> {
  if (caller === null || !GENERATIONS.has(routeOptions.url)) return [];
  return await peek(accounting, caller, model).catch(() => []);
}
