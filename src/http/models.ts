import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../errors.ts';
import { modelElement, modelList } from '../openai/models.ts';
import { acceptKey, requireKey } from './authenticate.ts';
import type { HttpContext } from './context.ts';
import { answerJson } from './exchange.ts';

/** `GET /v1/models` and `GET /v1/models/<namespace>/<name>`. */
export function registerModels(app: FastifyInstance, context: HttpContext): void {
  const admit = context.requireKeyForModels ? requireKey(context) : acceptKey(context);
  app.get('/v1/models', { onRequest: admit }, (request, reply) => {
    answer(request, reply, modelList(context.router.cards()));
  });
  app.get<{ Params: { '*': string } }>('/v1/models/*', { onRequest: admit }, (request, reply) => {
    const card = context.router.model(request.params['*']).card();
    if (!card) {
      throw new ServiceError('engine_unavailable', 'This model is not ready to be described yet.', {
        retryAfterMs: 1000,
      });
    }
    answer(request, reply, modelElement(card));
  });
}

function answer(request: FastifyRequest, reply: FastifyReply, body: object): void {
  reply.hijack();
  answerJson({ request: request.raw, response: reply.raw, requestId: request.id }, 200, JSON.stringify(body));
}
