import { randomUUID } from 'node:crypto';
import type { Config } from '../../config/schema.ts';
import type { Database } from '../../database/database.ts';
import type { Log } from '../../support/log.ts';
import type { Clock } from '../clock.ts';
import { openLimitHistory } from '../ledger/history.ts';
import type { Limiter } from './limiter.ts';
import { MemoryLimiter } from './memory.ts';

/** Opens limits in Valkey or Redis, which all instances share, or else in memory. */
export async function openLimiter(
  config: Config,
  database: Database,
  log: Log,
  clock: Clock | undefined,
): Promise<Limiter> {
  const history = openLimitHistory(database);
  const { reservedShare, whenStoreUnavailable } = config.file.limits;
  if (config.valkeyUrl === null) {
    if (config.databaseUrl === null) return new MemoryLimiter({ history, reservedShare, clock });
    log.warn(
      'limits are counted by each instance, because SLUICE_VALKEY_URL is not set: instances together can exceed limits per minute and in flight, and budgets by what they use in a few seconds',
      { rereadMs: REREAD_MS },
    );
    return new MemoryLimiter({ history, reservedShare, rereadMs: REREAD_MS, clock });
  }
  const { openValkeyLimiter } = await import('./valkey.ts');
  const options = { url: config.valkeyUrl, history, log, whenStoreUnavailable, reservedShare };
  return await openValkeyLimiter({ ...options, instanceId: randomUUID() });
}

/** How long instances without a shared store miss what the others use of a calendar limit, in milliseconds. */
const REREAD_MS = 3000;
