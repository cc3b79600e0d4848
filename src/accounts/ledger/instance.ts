import type { Log } from '../../log.ts';
import type { LedgerStore } from './store.ts';

/** How often partitions are made ahead and old rows dropped, in milliseconds. */
const UPKEEP_MS = 3_600_000;

/** Pause between two attempts to be live again, in milliseconds. */
const REGISTER_PAUSE_MS = 250;

export interface InstanceOptions {
  store: LedgerStore;
  log: Log;
  leaseMs: number;
  keepDays: number | undefined;
  /** This copy is live under a new epoch. */
  onLive: (epoch: number) => void;
  /** The database took no heartbeat. */
  onMissedBeat: (error: unknown) => void;
  /** Another copy has ended this one's epoch and settled all rows under it. */
  onFenced: () => void;
  /** Rows of copies that had ended were settled; how many. */
  onReaped: (rows: number) => void;
}

/**
 * This copy of the service among the others: it says that it lives, settles what those that do not have left, and
 * learns when it was itself taken for dead.
 */
export class Instance {
  readonly #options: InstanceOptions;
  /** Null: not live. */
  #epoch: number | null = null;
  #stopped = false;
  #silent = false;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #underWay = new Set<Promise<void>>();

  private constructor(options: InstanceOptions) {
    this.#options = options;
  }

  /** Registers this copy and settles what is there to be settled. Rejects with a `DatabaseError`. */
  static async start(options: InstanceOptions): Promise<Instance> {
    const instance = new Instance(options);
    const { leaseMs } = options;
    instance.#live(await options.store.register(leaseMs));
    await instance.#reap();
    instance.#every(leaseMs / 3, () => instance.#beat());
    instance.#every(leaseMs, () => instance.#reap());
    instance.#every(UPKEEP_MS, () => instance.#keepUp());
    instance.#track(instance.#keepUp());
    return instance;
  }

  /** Takes it that the copy of this epoch is not live any more, and becomes live again under another. */
  fenced(epoch: number): void {
    if (epoch !== this.#epoch) return;
    this.#epoch = null;
    this.#options.log.error('this copy was taken for dead: what it was generating is ended', { epoch });
    this.#options.onFenced();
    this.#track(this.#registerAgain());
  }

  /** Ends this copy and settles what it left open. Rejects with a `DatabaseError`: then others do when its lease ends. */
  async stop(): Promise<void> {
    this.#stopped = true;
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(this.#underWay);
    if (this.#epoch !== null) await this.#options.store.retire(this.#epoch);
    this.#epoch = null;
  }

  #live(epoch: number): void {
    this.#epoch = epoch;
    this.#options.onLive(epoch);
  }

  async #beat(): Promise<void> {
    const epoch = this.#epoch;
    if (epoch === null) return;
    try {
      if (!(await this.#options.store.beat(epoch, this.#options.leaseMs))) this.fenced(epoch);
      this.#silent = false;
    } catch (error) {
      this.#warn('the database took no heartbeat', error);
      if (!this.#stopped && epoch === this.#epoch) this.#options.onMissedBeat(error);
    }
  }

  async #reap(): Promise<void> {
    if (this.#epoch === null) return;
    try {
      const rows = await this.#options.store.reap(this.#epoch);
      if (rows === 0) return;
      this.#options.log.warn('settled as interrupted what another copy had left open', { rows });
      this.#options.onReaped(rows);
    } catch (error) {
      this.#warn('what other copies left open could not be settled', error);
    }
  }

  async #keepUp(): Promise<void> {
    const { store, keepDays, log } = this.#options;
    try {
      await store.upkeep(Date.now(), keepDays);
    } catch (error) {
      log.warn('the upkeep of the ledger failed and will be tried again', { error: asError(error) });
    }
  }

  async #registerAgain(): Promise<void> {
    while (!this.#stopped) {
      try {
        this.#live(await this.#options.store.register(this.#options.leaseMs));
        return;
      } catch (error) {
        this.#warn('this copy could not be registered again', error);
        await new Promise((resolve) => setTimeout(resolve, REGISTER_PAUSE_MS));
      }
    }
  }

  /** Says it once while the database is away: the journal says the rest. */
  #warn(message: string, error: unknown): void {
    if (!this.#silent && !this.#stopped) this.#options.log.warn(message, { error: asError(error) });
    this.#silent = true;
  }

  /** One at a time: a call that takes longer than its interval is not joined by another. */
  #every(intervalMs: number, work: () => Promise<void>): void {
    let busy = false;
    const timer = setInterval(() => {
      if (busy) return;
      busy = true;
      this.#track(work().finally(() => (busy = false)));
    }, intervalMs);
    this.#timers.push(timer.unref());
  }

  #track(work: Promise<void>): void {
    this.#underWay.add(work);
    void work.finally(() => this.#underWay.delete(work));
  }
}

/** What was thrown, for the log. */
export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
