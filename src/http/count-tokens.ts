import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { AuthenticatedKey } from '../accounts/keys.ts';
import { COUNT_PATH, formatCount, parseCountRequest } from '../protocols/anthropic/count.ts';
import { ServiceError } from '../core/errors.ts';
import { hasImages } from '../core/generation.ts';
import { countRequest } from '../inference/request-accounting.ts';
import { Notes } from '../core/notes.ts';
import { admitImages } from '../protocols/images.ts';
import { jsonBody } from '../json/json-thread.ts';
import { authorizationOf, invalidKey, requireKey } from './authenticate.ts';
import type { HttpContext } from './context.ts';
import { sendJson, takeOver } from './exchange.ts';
import { isStrict, modelOf } from './generate.ts';
import { logCount } from './request-log.ts';

const EMPTY = new Uint8Array(0);

/**
 * `POST /v1/messages/count_tokens`. Costs nothing and has no row in the ledger. Counts as a request only against the
 * requests per minute.
 */
export function registerTokenCount(app: FastifyInstance, context: HttpContext): void {
  app.post(COUNT_PATH, { onRequest: requireKey(context) }, async (request, reply) => {
    const memory = request.bodyMemory?.retain();
    try {
      await respondWithCount(context, request, reply);
    } finally {
      memory?.release();
    }
  });
}

async function respondWithCount(
  context: HttpContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const startedAtMs = performance.now();
  // `registerBodies` reads them into new buffers.
  const bytes = request.body instanceof Uint8Array ? (request.body as Uint8Array<ArrayBuffer>) : EMPTY;
  const body = (await jsonBody(bytes, undefined, request.bodyMemory))();
  const caller = currentCaller(context, request);
  const notes = new Notes(isStrict(request.raw, caller));
  const generation = parseCountRequest(body, { notes, sealer: context.sealing.of(caller.accountId) });
  const model = modelOf(context, generation, caller);
  if (hasImages(generation)) admitImages(generation, model.images(), notes);
  const limitHeaders = await countRequest(context.inference.accounting, request.id, caller, model.id);
  const stop = new AbortController();
  reply.raw.once('close', () => {
    stop.abort(new ServiceError('request_timeout', 'The client has disconnected.'));
  });
  // Engines count in turns between scopes.
  const counted = { ...generation, cacheScope: caller.cacheScope };
  const { tokens, exact } = await model.countPromptTokens(counted, stop.signal);
  if (!exact) notes.add('input_tokens', 'estimated, and not below the count');
  logCount(context.log, request, { model: model.id, notes, tokens, exact, startedAtMs });
  sendJson({ ...takeOver(request, reply), record: { limitHeaders, notes } }, 200, formatCount(tokens));
}

/** Returns the key as it is now, because it may have been revoked while the body arrived. */
function currentCaller({ keys }: HttpContext, { caller, headers }: FastifyRequest): AuthenticatedKey {
  const current = caller && keys.current(caller);
  if (current === null) throw invalidKey(authorizationOf(headers));
  return current;
}
