import type { FastifyInstance } from 'fastify';
import { isReady, progress } from '../routing/readiness.ts';
import { answerJson, RETRY_SOON } from './exchange.ts';
import type { HttpContext } from './context.ts';

/** `GET /healthz` (the process lives) and `GET /readyz` (it can generate). */
export function registerHealth(app: FastifyInstance, { router, keys, activity }: HttpContext): void {
  app.get('/healthz', (request, reply) => {
    reply.hijack();
    const exchange = { request: request.raw, response: reply.raw, requestId: request.id };
    answerJson(exchange, 200, '{"status":"ok"}');
  });
  app.get('/readyz', async (request, reply) => {
    const { authorization } = request.headers;
    const caller = authorization === undefined ? null : await keys.authenticate(authorization);
    const models = router.overview();
    const ready = isReady(models) && !activity.draining;
    const body =
      caller?.kind === 'admin'
        ? { status: word(ready, activity.draining), running: activity.running, models }
        : { status: word(ready, activity.draining), ...(ready ? {} : { progress: progress(models) }) };
    reply.hijack();
    const exchange = { request: request.raw, response: reply.raw, requestId: request.id };
    answerJson(exchange, ready ? 200 : 503, JSON.stringify(body), ready ? [] : RETRY_SOON);
  });
}

function word(ready: boolean, draining: boolean): string {
  if (draining) return 'shutting_down';
  return ready ? 'ready' : 'not_ready';
}
