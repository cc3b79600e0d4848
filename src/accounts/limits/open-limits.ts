import { randomUUID } from 'node:crypto';
import type { Config } from '../../config/schema.ts';
import type { Database } from '../../database/database.ts';
import type { Log } from '../../log.ts';
import { openUsageHistory } from '../ledger/history.ts';
import type { Limits } from './limits.ts';
import { MemoryLimits, type LimitsClock } from './memory.ts';

/** Opens limits in Valkey or Redis, which all instances share, or else in memory. */
export async function openLimits(
  config: Config,
  database: Database,
  log: Log,
  clock: LimitsClock | undefined,
): Promise<Limits> {
  const history = openUsageHistory(database);
  const { reservedShare, whenStoreUnavailable } = config.file.limits;
  if (config.valkeyUrl === null) return new MemoryLimits({ history, reservedShare, clock });
  const { openValkeyLimits } = await import('./valkey.ts');
  const options = { url: config.valkeyUrl, history, log, whenStoreUnavailable, reservedShare };
  return await openValkeyLimits({ ...options, instanceId: randomUUID() });
}
