import type { FastifyInstance } from 'fastify';
import { openApiDocument } from '../openai/openapi.ts';
import { managementPart } from './api/document.ts';
import { answerJson } from './exchange.ts';
import type { HttpContext } from './context.ts';

/** `GET /openapi.json`: the interface in OpenAPI 3.1, from the same table that validates. */
export function registerOpenApi(app: FastifyInstance, context: HttpContext): void {
  app.get('/openapi.json', (request, reply) => {
    reply.hijack();
    const info = {
      version: context.version,
      serverUrl: context.publicUrl(),
      maxChoices: context.limits.choices,
    };
    const document = openApiDocument(info, managementPart());
    const exchange = { request: request.raw, response: reply.raw, requestId: request.id };
    answerJson(exchange, 200, JSON.stringify(document));
  });
}
