import type { ConfigFile } from '../../config/schema.ts';
import type { Database } from '../../database/database.ts';
import type { Log } from '../../support/log.ts';
import { steadyNow } from '../clock.ts';
import { DAY_MS } from './days.ts';
import type { LedgerStore } from './store.ts';
import { asError } from '../../support/thrown.ts';

/** Interval at which partitions are created and old rows deleted, in milliseconds. */
const MAINTENANCE_MS = 3_600_000;

/** Pause between attempts to register again, in milliseconds. */
const REGISTER_PAUSE_MS = 250;

export interface InstanceOptions {
  settings: ConfigFile['ledger'];
  store: LedgerStore;
  log: Log;
  /** Called when this instance was registered with a new epoch. */
  onLive: (epoch: number) => void;
  /** Called when a heartbeat could not be written. */
  onHeartbeatFailed: (error: unknown) => void;
  /** Called when another instance has ended this instance's epoch and settled all rows of that epoch. */
  onFenced: () => void;
  /** Called when rows of dead instances were settled. */
  onReaped: (rows: number) => void;
}

/**
 * Registers this instance in the database, renews its lease, settles the rows of dead instances, and detects when
 * another instance declared this one dead.
 */
export class Instance {
  readonly #options: InstanceOptions;
  /** Null while not registered. */
  #epoch: number | null = null;
  #stopped = false;
  #warned = false;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #background = new Set<Promise<void>>();

  private constructor(options: InstanceOptions) {
    this.#options = options;
  }

  /** Registers this instance and settles the rows of dead ones. Rejects with a `DatabaseError`. */
  static async start(options: InstanceOptions): Promise<Instance> {
    const instance = new Instance(options);
    const { leaseMs, keepDays } = options.settings;
    instance.#activate(await options.store.register(leaseMs));
    await instance.#settleDeadInstances();
    instance.#repeat(leaseMs / 3, () => instance.#heartbeat());
    instance.#repeat(leaseMs, () => instance.#settleDeadInstances());
    instance.#repeat(MAINTENANCE_MS, () => instance.#maintain(keepDays));
    // Deletes no rows yet, because the clock of a machine that has just started may not be set.
    instance.#track(instance.#maintain(undefined));
    return instance;
  }

  /** Handles the loss of an epoch: registers this instance again with a new one. */
  handleFenced(epoch: number): void {
    if (epoch !== this.#epoch) return;
    this.#epoch = null;
    this.#options.log.error('the lease of this instance expired; its running requests are ended', { epoch });
    this.#options.onFenced();
    this.#track(this.#reRegister());
  }

  /**
   * Retires this instance and settles its open rows. Rejects with a `DatabaseError`; another instance then
   * settles them when the lease expires.
   */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(this.#background);
    if (this.#epoch !== null) await this.#options.store.retire(this.#epoch);
    this.#epoch = null;
  }

  #activate(epoch: number): void {
    this.#epoch = epoch;
    this.#options.onLive(epoch);
  }

  async #heartbeat(): Promise<void> {
    const epoch = this.#epoch;
    if (epoch === null) return;
    try {
      if (!(await this.#options.store.heartbeat(epoch, this.#options.settings.leaseMs)))
        this.handleFenced(epoch);
      this.#warned = false;
    } catch (error) {
      this.#warn('heartbeat not saved', error);
      if (!this.#stopped && epoch === this.#epoch) this.#options.onHeartbeatFailed(error);
    }
  }

  async #settleDeadInstances(): Promise<void> {
    if (this.#epoch === null) return;
    try {
      const rows = await this.#options.store.reap(this.#epoch);
      if (rows === 0) return;
      this.#options.log.warn('marked requests of a lost instance as interrupted', { rows });
      this.#options.onReaped(rows);
    } catch (error) {
      this.#warn('requests of lost instances could not be settled', error);
    }
  }

  async #maintain(keepDays: number | undefined): Promise<void> {
    const { store, log } = this.#options;
    const keepFromMs = keepDays === undefined ? null : steadyNow() - keepDays * DAY_MS;
    try {
      await store.maintain(Date.now(), keepFromMs);
    } catch (error) {
      log.warn('ledger maintenance failed; it will be retried', { error: asError(error) });
    }
  }

  async #reRegister(): Promise<void> {
    while (!this.#stopped) {
      try {
        this.#activate(await this.#options.store.register(this.#options.settings.leaseMs));
        return;
      } catch (error) {
        this.#warn('this instance could not be registered again; retrying', error);
        await new Promise((resolve) => setTimeout(resolve, REGISTER_PAUSE_MS));
      }
    }
  }

  /** Logs once per outage; the journal logs its start and end. */
  #warn(message: string, error: unknown): void {
    if (!this.#warned && !this.#stopped) this.#options.log.warn(message, { error: asError(error) });
    this.#warned = true;
  }

  /** Runs `work` at each interval, except while the previous run has not ended. */
  #repeat(intervalMs: number, work: () => Promise<void>): void {
    let busy = false;
    const timer = setInterval(() => {
      if (busy) return;
      busy = true;
      this.#track(work().finally(() => (busy = false)));
    }, intervalMs);
    this.#timers.push(timer.unref());
  }

  #track(work: Promise<void>): void {
    this.#background.add(work);
    void work.finally(() => this.#background.delete(work));
  }
}

/** Counts the live instances, including this one. Rejects with a `DatabaseError`. */
export async function countInstances(database: Database): Promise<number> {
  const { count } = await database.kysely
    .selectFrom('instances')
    .select((select) => select.fn.countAll<number>().as('count'))
    .where('live', '=', 1)
    .executeTakeFirstOrThrow();
  return count;
}
