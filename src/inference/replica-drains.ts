import { listDrainedReplicas } from '../accounts/drained-replicas.ts';
import type { AccountDatabase } from '../accounts/store.ts';
import type { Router } from '../routing/router.ts';

/** Interval at which drained replicas are read from the database, in milliseconds. */
const POLL_MS = 1000;

/** Applies the drained replicas in the database to the router, including those drained by other processes. */
export class ReplicaDrains implements AsyncDisposable {
  readonly #database: AccountDatabase;
  readonly #router: Router;
  readonly #timer: NodeJS.Timeout;
  /** The latest read. The next one waits for it, so that an older result never replaces a newer one. */
  #last: Promise<void> = Promise.resolve();

  private constructor(database: AccountDatabase, router: Router) {
    this.#database = database;
    this.#router = router;
    // While the database does not respond, the last state applies. `KeyStore` already logs the failure.
    this.#timer = setInterval(() => void this.refresh().catch(() => {}), POLL_MS).unref();
  }

  /** Rejects if the database cannot be read. */
  static async open(database: AccountDatabase, router: Router): Promise<ReplicaDrains> {
    const drains = new ReplicaDrains(database, router);
    await drains.refresh();
    return drains;
  }

  /** Reads the drained replicas now. */
  async refresh(): Promise<void> {
    this.#last = this.#last.catch(() => {}).then(() => this.#read());
    await this.#last;
  }

  async #read(): Promise<void> {
    this.#router.setDrained(await listDrainedReplicas(this.#database));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#last.catch(() => {});
  }
}
