import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';
import { formatModel, formatModelList } from '../openai/models.ts';
import { acceptKey, requireKey } from './authenticate.ts';
import type { HttpContext } from './context.ts';
import { answerJson } from './exchange.ts';
import { notAllowed } from './generate.ts';

/** `GET /v1/models` and `GET /v1/models/<namespace>/<name>`. */
export function registerModels(app: FastifyInstance, context: HttpContext): void {
  const admit = context.requireKeyForModels ? requireKey(context) : acceptKey(context);
  app.get('/v1/models', { onRequest: admit }, (request, reply) => {
    const cards = context.router.cards().filter(({ id }) => mayUse(request, id));
    answer(request, reply, formatModelList(cards));
  });
  app.get<{ Params: { '*': string } }>('/v1/models/*', { onRequest: admit }, (request, reply) => {
    const model = context.router.model(request.params['*'], request.caller?.models);
    if (!mayUse(request, model.id)) throw notAllowed(model.id);
    const card = model.card();
    if (!card) {
      throw new ServiceError('engine_unavailable', 'This model is not ready yet. Try again later.', {
        retryAfterMs: 1000,
      });
    }
    answer(request, reply, formatModel(card));
  });
}

/** A key that may use some models only sees those; without a key all are seen. */
function mayUse({ caller }: FastifyRequest, model: string): boolean {
  return caller?.models?.has(model) !== false;
}

function answer(request: FastifyRequest, reply: FastifyReply, body: object): void {
  reply.hijack();
  answerJson({ request: request.raw, response: reply.raw, requestId: request.id }, 200, JSON.stringify(body));
}
