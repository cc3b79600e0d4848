import { randomUUID } from 'node:crypto';
import type { Ledger } from '../../accounts/ledger/ledger.ts';
import type { Config } from '../../config/schema.ts';
import type { Log } from '../../log.ts';
import type { Secret } from '../../secret.ts';
import type { RunningGenerations } from '../running-generations.ts';
import { IdempotencyStore } from './store.ts';
import type { IdempotencyClaims } from './valkey-claims.ts';

interface Dependencies {
  config: Config;
  generations: RunningGenerations;
  ledger: Ledger;
  log: Log;
}

/** Opens the store of generations with an idempotency key, with claims in Valkey or Redis if it is configured. */
export async function openIdempotency(dependencies: Dependencies): Promise<IdempotencyStore> {
  const { config, generations, ledger, log } = dependencies;
  const store = new IdempotencyStore({
    settings: config.file.idempotency,
    claims: config.valkeyUrl === null ? null : await openClaims(config.valkeyUrl, log),
    onWaiting: (requestId) => log.info('client disconnected, waiting for a repeated request', { requestId }),
    onUndelivered: (requestId) => ledger.undelivered(requestId),
  });
  generations.onDraining = () => store.stop();
  return store;
}

async function openClaims(url: Secret, log: Log): Promise<IdempotencyClaims> {
  const { ValkeyClaims } = await import('./valkey-claims.ts');
  return await ValkeyClaims.open({ url, log, instanceId: randomUUID() });
}
