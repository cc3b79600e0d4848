import type { IncomingMessage } from 'node:http';
import type { FastifyInstance } from 'fastify';
import type { AuthenticatedKey, KeyStore, KeyUse } from '../accounts/keys.ts';
import { isReady, progress } from '../routing/readiness.ts';
import { useOf } from './authenticate.ts';
import { RETRY_SOON, sendJson, takeOver } from './exchange.ts';
import type { HttpContext } from './context.ts';

/** `GET /healthz`: the process is running. `GET /readyz`: it can generate. */
export function registerHealth(app: FastifyInstance, context: HttpContext): void {
  const { router, keys, generations, inference } = context;
  const { ledger } = inference.accounting;
  app.get('/healthz', (request, reply) => {
    sendJson(takeOver(request, reply), 200, '{"status":"ok"}');
  });
  app.get('/readyz', async (request, reply) => {
    const { authorization } = request.headers;
    const caller =
      authorization === undefined ? null : await callerOrNull(keys, authorization, useOf(request));
    const models = router.overview();
    const status = statusOf({
      draining: generations.draining,
      storage: ledger.health.writable && keys.fresh,
      models: isReady(models),
    });
    const ready = status === 'ready';
    const body =
      caller?.kind === 'admin'
        ? { status, running: generations.running, models, ledger: ledger.health }
        : { status, ...(ready ? {} : { progress: progress(models) }) };
    sendJson(takeOver(request, reply), ready ? 200 : 503, JSON.stringify(body), ready ? [] : RETRY_SOON);
  });
}

/** Whether a request is a health check, which is answered even if there are too many connections. */
export function isHealthCheck({ url }: IncomingMessage): boolean {
  const path = url?.split('?', 1)[0];
  return path === '/healthz' || path === '/readyz';
}

/** Returns null if keys cannot be checked, so that the response still contains the status. */
async function callerOrNull(
  keys: KeyStore,
  authorization: string,
  use: KeyUse,
): Promise<AuthenticatedKey | null> {
  try {
    return await keys.authenticate(authorization, use);
  } catch {
    return null;
  }
}

type Status = 'ready' | 'not_ready' | 'storage_unavailable' | 'shutting_down';

/** Returns the first condition that prevents generations. */
function statusOf(able: { draining: boolean; storage: boolean; models: boolean }): Status {
  if (able.draining) return 'shutting_down';
  if (!able.storage) return 'storage_unavailable';
  return able.models ? 'ready' : 'not_ready';
}
