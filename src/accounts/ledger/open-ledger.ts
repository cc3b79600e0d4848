import type { ConfigFile } from '../../config/schema.ts';
import type { Database } from '../../database/database.ts';
import { ensurePartitions } from '../../database/partitions.ts';
import type { Log } from '../../support/log.ts';
import { Instance } from './instance.ts';
import { asError } from '../../support/thrown.ts';
import { Journal } from './journal.ts';
import type { Ledger } from './ledger.ts';
import { RETRY_PAUSES } from './outage.ts';
import { SqliteStore } from './sqlite-store.ts';
import type { LedgerStore } from './store.ts';

export interface LedgerOptions {
  /** The caller keeps ownership. */
  database: Database;
  /** Whether this process holds the service lock, so that all other instances have ended. Default: false. */
  exclusive?: boolean;
  settings: ConfigFile['ledger'];
  log: Log;
  /** Called when another instance declared this one dead. All running generations must end; they settle as `lost`. */
  onFenced: () => void;
  /** Called when open rows of dead instances were settled. Cached reservations are then out of date. */
  onReaped: () => void;
}

/**
 * Registers this process as an instance, settles the open rows of dead instances, and opens the ledger. Rejects
 * with a `DatabaseError`. Disposing writes everything pending, settles open rows as interrupted, and retires the
 * instance.
 */
export async function openLedger(options: LedgerOptions): Promise<Ledger> {
  await ensurePartitions(options.database, Date.now());
  return await startLedger(await openStore(options.database, options.exclusive), options);
}

/** Like `openLedger`, with a store that the ledger disposes of. */
export async function startLedger(
  store: LedgerStore,
  { settings, log, onFenced, onReaped }: Omit<LedgerOptions, 'database' | 'exclusive'>,
  retry = RETRY_PAUSES,
): Promise<Ledger> {
  await using owned = new AsyncDisposableStack();
  owned.use(store);
  const journal = new Journal({
    settings,
    store,
    log,
    retry,
    onFenced: (epoch) => instance.handleFenced(epoch),
  });
  const instance = await Instance.start({
    settings,
    store,
    log,
    onLive: (epoch) => journal.resume(epoch),
    onHeartbeatFailed: (error) => journal.heartbeatFailed(error),
    onFenced: () => {
      journal.suspend('The lease of this instance expired. It is being registered again.');
      onFenced();
    },
    onReaped,
  });
  const checkpoints = setInterval(() => journal.checkpointAll(), settings.checkpointMs).unref();
  const resources = owned.move();
  return {
    open: (row, counts) => journal.open(row, counts),
    checkpoint: (id) => journal.checkpoint(id),
    settle: (id, settlement) => journal.settle(id, settlement),
    undelivered: (id) => journal.undelivered(id),
    get health() {
      return journal.health;
    },
    writes: journal.writes,
    async [Symbol.asyncDispose]() {
      clearInterval(checkpoints);
      await journal.close();
      await instance.stop().catch((error: unknown) => {
        log.error('the ledger was closed with open requests; they are settled at the next start', {
          error: asError(error),
        });
      });
      await resources.disposeAsync();
    },
  };
}

/** Opens the store for the type of this database. */
export async function openStore(database: Database, exclusive = false): Promise<LedgerStore> {
  const { kysely, location } = database;
  if (location.kind === 'sqlite') return new SqliteStore(kysely, location.client, exclusive);
  // Loaded on demand: a service on SQLite starts without it.
  const { PostgresStore } = await import('./postgres-store.ts');
  return new PostgresStore(database, location.url);
}
