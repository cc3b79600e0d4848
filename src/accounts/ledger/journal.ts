import { Deadline } from '../../deadline.ts';
import { ServiceError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { LedgerHealth, OpenedRow, RunningCounts, Settled, Settlement } from './ledger.ts';
import { Outage, type RetryPauses } from './outage.ts';
import {
  halves,
  idOf,
  motionOf,
  PendingWrites,
  toBatch,
  type Running,
  type Taken,
  type Settling,
} from './pending-writes.ts';
import { RefusedWriteError, type LedgerStore } from './store.ts';
import {
  isCountable,
  neverRanValues,
  ownerOf,
  settledValues,
  unwritableValues,
  type Batch,
  type Owner,
  type SettledValues,
} from './write.ts';

/** From so many requests on commits are at least so many milliseconds apart. */
const MANY = 20;
const PACE_MS = 4;

export interface JournalOptions {
  store: LedgerStore;
  log: Log;
  settleWaitMs: number;
  leaseMs: number;
  retry: RetryPauses;
  /** Called when a write found that the copy of this epoch is not live any more. */
  onFenced: (epoch: number) => void;
}

/**
 * Gathers writes into batches, one of them under way at a time, and keeps what has to be written until it is.
 *
 * While writing fails nothing is opened, so what is kept has a bound: one settlement for each request that ran at
 * that moment, about a kilobyte each.
 */
export class Journal {
  readonly #options: JournalOptions;
  readonly #running = new Map<string, Running>();
  readonly #pending = new PendingWrites();
  /** The batch under way. */
  #taken: Taken | null = null;
  /** Under which rows are written; null: this copy is not live. */
  #epoch: number | null = null;
  readonly #outage: Outage;
  #woken = false;
  #wroteAt = -Infinity;
  #closing = false;
  #overdue: Deadline | undefined;
  #whenIdle = (): void => {};

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#outage = new Outage(options.retry, () => this.#writeKept());
  }

  get health(): LedgerHealth {
    const outage = this.#outage.current;
    if (outage === null) return { writable: true };
    const waiting = (this.#taken?.settles.length ?? 0) + this.#pending.settles.length;
    return { writable: false, waiting, ...outage };
  }

  /** As `Ledger.open`. */
  open(row: OpenedRow, counts: RunningCounts): Promise<void> {
    if (this.#outage.active || this.#closing) return Promise.reject(this.#unavailable());
    return new Promise((resolve, reject) => {
      this.#pending.open({ row, counts, resolve, reject });
      this.#wake();
    });
  }

  /** As `Ledger.checkpoint`. */
  checkpoint(id: string): void {
    const running = this.#running.get(id);
    if (running === undefined || running.epoch !== this.#epoch) return;
    this.#pending.checkpoint(running);
    this.#wake();
  }

  /** Has a checkpoint written of every open row whose counts have moved. */
  checkpointAll(): void {
    for (const running of this.#running.values()) {
      if (motionOf(running.counts) !== running.written) this.checkpoint(running.id);
    }
  }

  /** As `Ledger.settle`. */
  settle(id: string, settlement: Settlement): Promise<Settled> {
    const running = this.#running.get(id);
    this.#running.delete(id);
    // Whoever ended an older epoch has settled all its rows.
    if (running === undefined || running.epoch !== this.#epoch) return Promise.resolve('lost');
    if (!isCountable(settlement.usage)) {
      this.#options.log.error('a request reported an impossible usage', { id, ...settlement.usage });
      this.#settle(unwritableValues(id, Date.now()), running.owner, ignore, ignore);
      return Promise.reject(this.#unavailable('impossible usage'));
    }
    const values = settledValues(id, running, settlement);
    return new Promise((resolve, reject) => this.#settle(values, running.owner, resolve, reject));
  }

  /** As `Ledger.undelivered`. */
  undelivered(id: string): void {
    if (this.#epoch === null) return;
    this.#pending.undelivered(id);
    this.#wake();
  }

  /** Writes under this epoch from now on. */
  resume(epoch: number): void {
    this.#epoch = epoch;
    this.#healed();
  }

  /** Ends everything that stands under the epoch until now: another copy has settled all its rows. */
  suspend(reason: string): void {
    this.#epoch = null;
    this.#failed(reason);
    for (const settling of this.#pending.clear()) this.#lost(settling);
    if (this.#isIdle) this.#whenIdle();
  }

  /** Opens nothing until the database takes a heartbeat again: it has not taken this one. */
  missedBeat(error: unknown): void {
    this.#failed(messageOf(error), error);
  }

  /** Opens no more and writes what there is, with a last checkpoint of what runs still; for `settleWaitMs` at most. */
  async close(): Promise<void> {
    this.#closing = true;
    this.checkpointAll();
    if (!this.#isIdle) {
      await new Promise<void>((resolve) => {
        const limit = new Deadline(this.#options.settleWaitMs, resolve);
        this.#whenIdle = () => {
          limit[Symbol.dispose]();
          resolve();
        };
      });
    }
    this.suspend('The ledger is closed.');
    this.#running.clear();
    this.#outage[Symbol.dispose]();
    this.#overdue?.[Symbol.dispose]();
  }

  #settle(
    values: SettledValues,
    owner: Owner,
    resolve: (settled: Settled) => void,
    reject: (error: Error) => void,
  ): void {
    const { settleWaitMs } = this.#options;
    const deadline = performance.now() + settleWaitMs;
    this.#pending.settle({ values, owner, resolve, reject, deadline, doubtful: false, closes: false });
    // One timer for all of them: as a rule it finds nothing to do.
    this.#overdue ??= new Deadline(settleWaitMs, () => this.#tellOverdue());
    this.#wake();
  }

  /**
   * Tells requests that waited for too long that they could not be counted, and has them cost nothing. Those whose
   * write is under way are told when it has ended: it may yet succeed.
   */
  #tellOverdue(): void {
    this.#overdue?.[Symbol.dispose]();
    this.#overdue = undefined;
    const now = performance.now();
    let next = Infinity;
    for (const settling of this.#pending.settles) {
      if (settling.deadline > now) {
        next = Math.min(next, settling.deadline);
      } else if (settling.deadline > -Infinity) {
        this.#pending.waive(settling);
        settling.deadline = -Infinity;
        settling.reject(this.#unavailable());
      }
    }
    if (next < Infinity) this.#overdue = new Deadline(next - now, () => this.#tellOverdue());
  }

  /** Its row is another copy's now, if it is not written. */
  #lost(settling: Settling): void {
    this.#pending.waive(settling);
    settling.resolve('lost');
  }

  get #isIdle(): boolean {
    return this.#taken === null && this.#pending.isEmpty;
  }

  /**
   * Writes at the end of this turn of the event loop, so that all which the turn brings is one commit. Where many
   * requests run a commit also waits a moment for the next ones: alone it costs as much as ten others in it.
   */
  #wake(): void {
    if (this.#woken || this.#taken !== null || this.#outage.active) return;
    this.#woken = true;
    const sinceMs = performance.now() - this.#wroteAt;
    if (this.#running.size + this.#pending.requests < MANY || sinceMs >= PACE_MS) setImmediate(this.#write);
    else setTimeout(this.#write, PACE_MS - sinceMs);
  }

  readonly #write = (): void => {
    this.#woken = false;
    if (this.#taken !== null || this.#outage.active || this.#epoch === null || this.#pending.isEmpty) return;
    this.#wroteAt = performance.now();
    void this.#writeSome(this.#epoch).then(() => {
      if (!this.#pending.isEmpty) this.#wake();
    });
  };

  async #writeSome(epoch: number): Promise<void> {
    this.#taken = this.#pending.take();
    const responded = (await this.#attempt(this.#taken, epoch)) && (await this.#waive(this.#pending.waived));
    this.#taken = null;
    if (responded && this.#epoch === epoch) this.#healed();
    if (this.#isIdle) this.#whenIdle();
  }

  /**
   * Writes a batch and tells each of its requests the result. Returns whether the database took or refused all of
   * it; otherwise what has to be written is pending again, unless another instance has settled it. Never rejects.
   */
  async #attempt(taken: Taken, epoch: number): Promise<boolean> {
    try {
      const result = await this.#options.store.write(epoch, toBatch(taken));
      if (result === null) this.#fenced(taken, epoch);
      else this.#written(taken, new Set(result.lost), epoch);
      return result !== null;
    } catch (error) {
      if (error instanceof RefusedWriteError) return await this.#split(taken, error, epoch);
      this.#putBack(taken, error, epoch);
      return false;
    }
  }

  /** Finds the rows that the database refuses by writing a refused batch in halves, so that they hold up no others. */
  async #split(taken: Taken, error: RefusedWriteError, epoch: number): Promise<boolean> {
    const [first, second] = halves(taken);
    if (first === undefined || second === undefined) {
      this.#refused(taken, error);
      return true;
    }
    if (await this.#attempt(first, epoch)) return await this.#attempt(second, epoch);
    if (this.#epoch === epoch) this.#putBack(second, error, epoch);
    else this.#fenced(second, epoch);
    return false;
  }

  /**
   * Cancels the charge for settlements that may have been written although their requests were told otherwise.
   * Returns whether the database took or refused all of them. Never rejects.
   */
  async #waive(settles: Batch['settles']): Promise<boolean> {
    if (settles.length === 0) return true;
    try {
      await this.#options.store.waive(settles);
    } catch (error) {
      if (!(error instanceof RefusedWriteError)) {
        this.#failed(messageOf(error), error);
        return false;
      }
      if (settles.length > 1) {
        const middle = settles.length >> 1;
        const [first, second] = [settles.slice(0, middle), settles.slice(middle)];
        return (await this.#waive(first)) && (await this.#waive(second));
      }
      this.#options.log.error('the database refuses to cancel a charge', { id: settles[0]?.[0], error });
    }
    this.#pending.waivedAre(settles.length);
    return true;
  }

  #written(taken: Taken, lost: ReadonlySet<string>, epoch: number): void {
    for (const { row, counts, resolve } of taken.opens) {
      const { id, startedAt, pricePrompt: prompt, priceCompletion: completion } = row;
      this.#running.set(id, {
        id,
        owner: ownerOf(row),
        startedAt,
        counts,
        epoch,
        price: { prompt, completion },
        written: motionOf(counts),
      });
      resolve();
    }
    for (const settling of taken.settles) {
      settling.resolve(lost.size > 0 && lost.has(idOf(settling)) ? 'lost' : 'settled');
    }
  }

  #fenced(taken: Taken, epoch: number): void {
    for (const { reject } of taken.opens) reject(this.#unavailable());
    for (const settling of taken.settles) this.#lost(settling);
    if (this.#epoch === epoch) this.#options.onFenced(epoch);
  }

  #putBack(taken: Taken, error: unknown, epoch: number): void {
    this.#failed(messageOf(error), error);
    for (const { row, reject } of taken.opens) {
      reject(this.#unavailable(error));
      // It may be there all the same, if only the answer was lost.
      if (this.#epoch === epoch) {
        this.#settle(neverRanValues(row.id, Date.now()), ownerOf(row), ignore, ignore);
      }
    }
    for (const running of taken.checkpoints) running.written = NaN;
    for (const settling of taken.settles) settling.doubtful = true;
    if (this.#epoch === epoch) {
      this.#pending.putBack(taken);
      this.#tellOverdue();
    } else {
      for (const settling of taken.settles) this.#lost(settling);
    }
  }

  /** Rejects the request of the one row of this batch. */
  #refused({ opens, settles, checkpoints, undelivered }: Taken, error: RefusedWriteError): void {
    const id = opens[0]?.row.id ?? checkpoints[0]?.id ?? undelivered[0];
    if (id !== undefined) this.#options.log.error('the database refuses a row of the ledger', { id, error });
    for (const { reject } of opens) reject(this.#unavailable(error));
    for (const settling of settles) this.#unwritable(settling, error);
  }

  /** Closes the row of a settlement that cannot be written, as an error without counts or cost. */
  #unwritable(settling: Settling, error: RefusedWriteError): void {
    const id = idOf(settling);
    this.#options.log.error('the database refuses the settlement of a request', { id, error });
    settling.reject(this.#unavailable(error));
    // Refused even so: the row stays open until this instance ends.
    if (settling.closes) return;
    const values = unwritableValues(id, Date.now());
    this.#pending.settle({ ...settling, values, closes: true, deadline: -Infinity });
    this.#wake();
  }

  /** Opens nothing until the database takes writes again; rejects the requests that wait for their opening. */
  #failed(reason: string, error?: unknown): void {
    if (this.#outage.begin(reason) && !this.#closing) {
      this.#options.log.error('the ledger cannot be written', { reason, error: asError(error) });
    }
    for (const { reject } of this.#pending.takeOpens()) reject(this.#unavailable(error));
  }

  /**
   * A heartbeat shows whether the database takes writes again, so that no request has to try; then what is kept is
   * written before anything is opened. Without an epoch `resume` ends the outage. Never rejects.
   */
  async #writeKept(): Promise<void> {
    const epoch = this.#epoch;
    if (epoch === null) return;
    try {
      const live = await this.#options.store.beat(epoch, this.#options.leaseMs);
      if (this.#epoch !== epoch || this.#taken !== null) return;
      if (!live) this.#options.onFenced(epoch);
      else await this.#writeSome(epoch);
    } catch (error) {
      if (this.#epoch === epoch) this.#failed(messageOf(error), error);
    }
  }

  #healed(): void {
    const awayMs = this.#outage.end();
    if (awayMs !== null) this.#options.log.info('the ledger can be written', { awayMs });
    this.#wake();
  }

  #unavailable(cause?: unknown): ServiceError {
    return new ServiceError('storage_unavailable', 'The ledger of requests cannot be written now.', {
      cause: cause ?? this.#outage.current?.reason,
    });
  }
}

function ignore(): void {}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function asError(error: unknown): Error | undefined {
  return error instanceof Error ? error : undefined;
}
