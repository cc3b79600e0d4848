import { Deadline } from '../../deadline.ts';
import type { Log } from '../../log.ts';
import { asError } from './instance.ts';
import {
  ledgerUnavailable,
  type LedgerHealth,
  type OpenedRow,
  type RunningCounts,
  type SettleResult,
  type Settlement,
} from './ledger.ts';
import { Outage, type RetryPauses } from './outage.ts';
import {
  splitBatch,
  idOf,
  progressOf,
  PendingWrites,
  runningRow,
  type PendingOpen,
  toBatch,
  type RunningRow,
  type PendingBatch,
  type PendingSettlement,
} from './pending-writes.ts';
import { RefusedWriteError, type LedgerStore } from './store.ts';
import { WriteSchedule } from './write-schedule.ts';
import {
  isCountable,
  neverRanValues,
  settledValues,
  unwritableValues,
  type Batch,
  type UsageKey,
  type SettledValues,
} from './write.ts';

export interface JournalOptions {
  store: LedgerStore;
  log: Log;
  settleWaitMs: number;
  leaseMs: number;
  retry: RetryPauses;
  /** Called when a write finds that this epoch has ended. */
  onFenced: (epoch: number) => void;
}

const IGNORE = (): void => {};

/**
 * Collects writes into batches, writes one batch at a time, and retries until they are written.
 *
 * No request is opened during an outage, so the number of pending settlements is bounded by the requests that ran
 * when it began; each takes about a kilobyte.
 */
export class Journal {
  readonly #options: JournalOptions;
  readonly #openRows = new Map<string, RunningRow>();
  /** Rows that are not written yet, or are being written. */
  readonly #openings = new Map<string, PendingOpen>();
  readonly #pending = new PendingWrites();
  /** The batch that is being written. */
  #batch: PendingBatch | null = null;
  /** The epoch that rows are written with; null while this instance is not registered. */
  #epoch: number | null = null;
  readonly #outage: Outage;
  readonly #schedule: WriteSchedule;
  #closing = false;
  #overdueTimer: Deadline | undefined;
  #onIdle = (): void => {};

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#outage = new Outage(options.retry, () => this.#probe());
    this.#schedule = new WriteSchedule(this.#write, this.#writeAll);
  }

  get health(): LedgerHealth {
    const outage = this.#outage.current;
    if (outage === null) return { writable: true };
    const waiting = (this.#batch?.settles.length ?? 0) + this.#pending.settles.length;
    return { writable: false, waiting, ...outage };
  }

  /** See `Ledger.open`. */
  open(row: OpenedRow, counts: RunningCounts): Promise<void> {
    const epoch = this.#epoch;
    if (epoch === null || this.#outage.active || this.#closing) return Promise.reject(this.#unavailable());
    return new Promise((resolve, reject) => {
      this.#openings.set(row.id, this.#pending.open(row, runningRow(row, counts, epoch), resolve, reject));
      if (row.streamed) this.#scheduleWrite();
      else this.#schedule.later();
    });
  }

  /** See `Ledger.checkpoint`. */
  checkpoint(id: string): void {
    const running = this.#openRows.get(id);
    if (running === undefined || running.epoch !== this.#epoch) return;
    this.#pending.checkpoint(running);
    this.#scheduleWrite();
  }

  /** Writes a checkpoint of every open row whose counts have changed. */
  checkpointAll(): void {
    for (const running of this.#openRows.values()) {
      if (progressOf(running.counts) !== running.writtenProgress) this.checkpoint(running.id);
    }
  }

  /** See `Ledger.settle`. */
  settle(id: string, settlement: Settlement): Promise<SettleResult> {
    const running = this.#openings.get(id)?.running ?? this.#openRows.get(id);
    this.#openRows.delete(id);
    // The rows of an older epoch were settled by the instance that ended it.
    if (running === undefined || running.epoch !== this.#epoch) return Promise.resolve('lost');
    if (!isCountable(settlement.usage)) {
      this.#options.log.error('a request ended with impossible token counts', { id, ...settlement.usage });
      this.#settle(unwritableValues(id, Date.now()), running.usageKey, IGNORE, IGNORE);
      return Promise.reject(this.#unavailable('impossible token counts'));
    }
    const values = settledValues(id, running, settlement);
    return new Promise((resolve, reject) => this.#settle(values, running.usageKey, resolve, reject));
  }

  /** See `Ledger.undelivered`. */
  undelivered(id: string): void {
    if (this.#epoch === null) return;
    this.#pending.undelivered(id);
    this.#scheduleWrite();
  }

  /** Writes with this epoch from now on. */
  resume(epoch: number): void {
    this.#epoch = epoch;
    this.#endOutage();
  }

  /** Drops all pending writes: on closing, or after another instance has settled the rows of this epoch. */
  suspend(reason: string): void {
    this.#epoch = null;
    this.#startOutage(reason);
    for (const settling of this.#pending.clear()) this.#resolveLost(settling);
    if (this.#isIdle) this.#onIdle();
  }

  /** Starts an outage because a heartbeat failed. */
  heartbeatFailed(error: unknown): void {
    this.#startOutage(asError(error).message, error);
  }

  /** Writes everything pending and a last checkpoint of running requests, for `settleWaitMs` at most. */
  async close(): Promise<void> {
    this.#closing = true;
    this.checkpointAll();
    this.#writeAll();
    if (!this.#isIdle) {
      const { promise, resolve } = Promise.withResolvers<void>();
      using _limit = new Deadline(this.#options.settleWaitMs, resolve);
      this.#onIdle = resolve;
      await promise;
    }
    this.suspend('The ledger is closed.');
    this.#openRows.clear();
    this.#outage[Symbol.dispose]();
    this.#overdueTimer?.[Symbol.dispose]();
    this.#schedule[Symbol.dispose]();
  }

  #settle(
    values: SettledValues,
    usageKey: UsageKey,
    resolve: (settled: SettleResult) => void,
    reject: (error: Error) => void,
  ): void {
    const deadline = performance.now() + this.#options.settleWaitMs;
    const settling = { values, usageKey, resolve, reject, deadline, doubtful: false, closes: false };
    const opening = this.#openings.get(values[0]);
    if (opening === undefined) this.#pending.settle(settling);
    else this.#pending.settleOpening(opening, settling);
    // One timer for all settlements, because few are ever overdue.
    this.#overdueTimer ??= new Deadline(this.#options.settleWaitMs, () => this.#rejectOverdue());
    this.#scheduleWrite();
  }

  /**
   * Rejects settlements that are past their deadline, and cancels their charge. Settlements in the batch that is being
   * written are rejected only if the batch fails.
   */
  #rejectOverdue(): void {
    this.#overdueTimer?.[Symbol.dispose]();
    this.#overdueTimer = undefined;
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
    if (next < Infinity) this.#overdueTimer = new Deadline(next - now, () => this.#rejectOverdue());
  }

  /** Resolves a settlement as `lost`, and cancels its charge in case an earlier attempt was written. */
  #resolveLost(settling: PendingSettlement): void {
    this.#pending.waive(settling);
    settling.resolve('lost');
  }

  get #isIdle(): boolean {
    return this.#batch === null && this.#pending.isEmpty;
  }

  #scheduleWrite(): void {
    if (this.#batch !== null || this.#outage.active) return;
    this.#schedule.soon(this.#openRows.size + this.#pending.requests);
  }

  readonly #write = (): void => {
    if (this.#batch !== null || this.#outage.active || this.#epoch === null || !this.#pending.isDue) return;
    this.#schedule.writing();
    void this.#writeBatch(this.#epoch).then(() => {
      if (this.#pending.isDue) this.#scheduleWrite();
    });
  };

  /** Writes everything, including rows that wait for their settlement. */
  readonly #writeAll = (): void => {
    this.#pending.makeAllDue();
    this.#scheduleWrite();
  };

  async #writeBatch(epoch: number): Promise<void> {
    this.#batch = this.#pending.take();
    const responded = (await this.#tryWrite(this.#batch, epoch)) && (await this.#waive(this.#pending.waived));
    this.#batch = null;
    if (responded && this.#epoch === epoch) this.#endOutage();
    if (this.#isIdle) this.#onIdle();
  }

  /**
   * Writes a batch and settles the promises of its requests. Returns true if the database accepted or refused every
   * row. Otherwise, the batch is pending again, unless another instance has settled its rows. Never rejects.
   */
  async #tryWrite(batch: PendingBatch, epoch: number): Promise<boolean> {
    try {
      const result = await this.#options.store.write(epoch, toBatch(batch));
      if (result === null) this.#resolveFenced(batch, epoch);
      else this.#written(batch, new Set(result.lost), epoch);
      return result !== null;
    } catch (error) {
      if (error instanceof RefusedWriteError) return await this.#writeParts(batch, error, epoch);
      this.#requeue(batch, error, epoch);
      return false;
    }
  }

  /** Writes a refused batch in parts to find the refused rows, so that the other rows are written. */
  async #writeParts(batch: PendingBatch, error: RefusedWriteError, epoch: number): Promise<boolean> {
    const [first, second] = splitBatch(batch);
    if (first === undefined) {
      this.#rejectRefused(batch, error);
      return true;
    }
    if (second === undefined) return await this.#tryWrite(first, epoch);
    if (await this.#tryWrite(first, epoch)) return await this.#tryWrite(second, epoch);
    if (this.#epoch === epoch) this.#requeue(second, error, epoch);
    else this.#resolveFenced(second, epoch);
    return false;
  }

  /**
   * Cancels the charge for settlements that may have been written although their requests were rejected. Returns
   * whether the database accepted or refused all of them. Never rejects.
   */
  async #waive(settles: Batch['settles']): Promise<boolean> {
    if (settles.length === 0) return true;
    try {
      await this.#options.store.waive(settles);
    } catch (error) {
      if (!(error instanceof RefusedWriteError)) {
        this.#startOutage(asError(error).message, error);
        return false;
      }
      if (settles.length > 1) {
        const middle = settles.length >> 1;
        return (await this.#waive(settles.slice(0, middle))) && (await this.#waive(settles.slice(middle)));
      }
      this.#options.log.error('the database refused to cancel a charge', { id: settles[0]?.[0], error });
    }
    this.#pending.removeWaived(settles.length);
    return true;
  }

  #written(batch: PendingBatch, lost: ReadonlySet<string>, epoch: number): void {
    for (const { running, settlement, merged, resolve } of batch.opens) {
      this.#openings.delete(running.id);
      if (settlement === null) this.#openRows.set(running.id, running);
      else if (merged) settlement.resolve('settled');
      else if (epoch === this.#epoch) this.#pending.settle(settlement);
      else this.#resolveLost(settlement);
      resolve();
    }
    for (const settling of batch.settles) {
      settling.resolve(lost.size > 0 && lost.has(idOf(settling)) ? 'lost' : 'settled');
    }
  }

  /** Rejects the `open` of a row that was not written, and resolves its settlement, if there is one, as `lost`. */
  #rejectOpen({ running, settlement, reject }: PendingOpen, error?: unknown): void {
    this.#openings.delete(running.id);
    reject(this.#unavailable(error));
    if (settlement !== null) this.#resolveLost(settlement);
  }

  #resolveFenced(batch: PendingBatch, epoch: number): void {
    for (const opening of batch.opens) this.#rejectOpen(opening);
    for (const settling of batch.settles) this.#resolveLost(settling);
    if (this.#epoch === epoch) this.#options.onFenced(epoch);
  }

  #requeue(batch: PendingBatch, error: unknown, epoch: number): void {
    this.#startOutage(asError(error).message, error);
    for (const opening of batch.opens) {
      if (opening.merged && opening.settlement !== null) opening.settlement.doubtful = true;
      this.#rejectOpen(opening, error);
      const { id, usageKey } = opening.running;
      // The row may exist if only the response was lost.
      if (this.#epoch === epoch) this.#settle(neverRanValues(id, Date.now()), usageKey, IGNORE, IGNORE);
    }
    for (const running of batch.checkpoints) running.writtenProgress = NaN;
    for (const settling of batch.settles) {
      settling.doubtful = true;
      if (this.#epoch !== epoch) this.#resolveLost(settling);
    }
    if (this.#epoch !== epoch) return;
    this.#pending.requeue(batch);
    this.#rejectOverdue();
  }

  /** Handles a batch whose only row was refused by the database. */
  #rejectRefused({ opens, settles, checkpoints, undelivered }: PendingBatch, error: RefusedWriteError): void {
    const id = opens[0]?.running.id ?? checkpoints[0]?.id ?? undelivered[0];
    if (id !== undefined) this.#options.log.error('the database refused a ledger row', { id, error });
    for (const opening of opens) this.#rejectOpen(opening, error);
    for (const settling of settles) this.#closeRefused(settling, error);
  }

  /** Closes the row of a refused settlement as an error without counts or cost. */
  #closeRefused(settling: PendingSettlement, error: RefusedWriteError): void {
    const id = idOf(settling);
    this.#options.log.error('the database refused to settle a request', { id, error });
    settling.reject(this.#unavailable(error));
    // The row was refused a second time, so it stays open until this instance ends.
    if (settling.closes) return;
    const values = unwritableValues(id, Date.now());
    this.#pending.settle({ ...settling, values, closes: true, deadline: -Infinity });
    this.#scheduleWrite();
  }

  /** Starts an outage, during which no request is opened, and rejects the requests that are waiting to be opened. */
  #startOutage(reason: string, error?: unknown): void {
    if (this.#outage.begin(reason) && !this.#closing) {
      const fields = { reason, ...(error instanceof Error && { error }) };
      this.#options.log.error('the ledger is not writable', fields);
    }
    for (const opening of this.#pending.takeOpens()) this.#rejectOpen(opening, error);
  }

  /**
   * Checks with a heartbeat whether the outage is over, and if so, writes the next batch. Does nothing while this
   * instance has no epoch, because `resume` then ends the outage. Never rejects.
   */
  async #probe(): Promise<void> {
    const epoch = this.#epoch;
    if (epoch === null) return;
    try {
      const live = await this.#options.store.heartbeat(epoch, this.#options.leaseMs);
      if (this.#epoch !== epoch || this.#batch !== null) return;
      if (!live) this.#options.onFenced(epoch);
      else await this.#writeBatch(epoch);
    } catch (error) {
      if (this.#epoch === epoch) this.#startOutage(asError(error).message, error);
    }
  }

  #endOutage(): void {
    const outageMs = this.#outage.end();
    if (outageMs !== null) this.#options.log.info('the ledger is writable again', { outageMs });
    this.#scheduleWrite();
  }

  #unavailable(cause?: unknown): Error {
    return ledgerUnavailable(cause ?? this.#outage.current?.reason);
  }
}
