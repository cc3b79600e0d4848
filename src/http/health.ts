import type { FastifyInstance } from 'fastify';
import type { AuthenticatedKey, KeyStore } from '../accounts/keys.ts';
import { isReady, progress } from '../routing/readiness.ts';
import { answerJson, RETRY_SOON } from './exchange.ts';
import type { HttpContext } from './context.ts';

/** `GET /healthz` (the process lives) and `GET /readyz` (it can generate). */
export function registerHealth(app: FastifyInstance, context: HttpContext): void {
  const { router, keys, activity, inference } = context;
  const { ledger } = inference.accounting;
  app.get('/healthz', (request, reply) => {
    reply.hijack();
    const exchange = { request: request.raw, response: reply.raw, requestId: request.id };
    answerJson(exchange, 200, '{"status":"ok"}');
  });
  app.get('/readyz', async (request, reply) => {
    const { authorization } = request.headers;
    const caller = authorization === undefined ? null : await callerOf(keys, authorization, request.ip);
    const models = router.overview();
    const status = statusOf({
      draining: activity.draining,
      storage: ledger.health.writable && keys.fresh,
      models: isReady(models),
    });
    const ready = status === 'ready';
    const body =
      caller?.kind === 'admin'
        ? { status, running: activity.running, models, ledger: ledger.health }
        : { status, ...(ready ? {} : { progress: progress(models) }) };
    reply.hijack();
    const exchange = { request: request.raw, response: reply.raw, requestId: request.id };
    answerJson(exchange, ready ? 200 : 503, JSON.stringify(body), ready ? [] : RETRY_SOON);
  });
}

/** Nobody is known while keys cannot be checked; whether the service is ready is told all the same. */
async function callerOf(keys: KeyStore, authorization: string, ip: string): Promise<AuthenticatedKey | null> {
  try {
    return await keys.authenticate(authorization, ip);
  } catch {
    return null;
  }
}

type Status = 'ready' | 'not_ready' | 'storage_unavailable' | 'shutting_down';

/** What keeps a generation from starting here; the one that waiting helps least comes first. */
function statusOf(able: { draining: boolean; storage: boolean; models: boolean }): Status {
  if (able.draining) return 'shutting_down';
  if (!able.storage) return 'storage_unavailable';
  return able.models ? 'ready' : 'not_ready';
}
