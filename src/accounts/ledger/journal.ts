import { Deadline } from '../../deadline.ts';
import { ServiceError } from '../../errors.ts';
import type { Log } from '../../log.ts';
import type { LedgerHealth, OpenedRow, RunningCounts, Settled, Settlement } from './ledger.ts';
import {
  apart,
  idOf,
  motionOf,
  PendingWrites,
  toBatch,
  type Running,
  type Taken,
  type Settling,
} from './pending-writes.ts';
import { RefusedWriteError, type LedgerStore } from './store.ts';
import { neverRanValues, ownerOf, settledValues, type Owner, type Value } from './write.ts';

/** Pauses between attempts while writing fails, in milliseconds: the first, doubled up to the longest. */
const PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1000;

/** From so many requests on commits are at least so many milliseconds apart. */
const MANY = 20;
const PACE_MS = 4;

/** A fault that comes back within so many milliseconds is taken for the same one. */
const RELAPSE_MS = 10_000;

export interface JournalOptions {
  store: LedgerStore;
  log: Log;
  settleWaitMs: number;
  leaseMs: number;
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
  #fault: { since: number; pauseMs: number; reason: string } | null = null;
  #healedAt = -Infinity;
  #woken = false;
  #wroteAt = -Infinity;
  #closing = false;
  #retry: NodeJS.Timeout | undefined;
  #overdue: Deadline | undefined;
  #whenIdle = (): void => {};

  constructor(options: JournalOptions) {
    this.#options = options;
  }

  get health(): LedgerHealth {
    if (this.#fault === null) return { writable: true };
    const { since, reason } = this.#fault;
    const waiting = (this.#taken?.settles.length ?? 0) + this.#pending.settles.length;
    return { writable: false, sinceMs: Math.round(performance.now() - since), waiting, reason };
  }

  /** As `Ledger.open`. */
  open(row: OpenedRow, counts: RunningCounts): Promise<void> {
    if (this.#fault !== null || this.#closing) return Promise.reject(this.#unavailable());
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
    this.#failed(error instanceof Error ? error.message : String(error), error);
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
    clearTimeout(this.#retry);
    this.#overdue?.[Symbol.dispose]();
  }

  #settle(
    values: Value[],
    owner: Owner,
    resolve: (settled: Settled) => void,
    reject: (error: Error) => void,
  ): void {
    const { settleWaitMs } = this.#options;
    const deadline = performance.now() + settleWaitMs;
    this.#pending.settle({ values, owner, resolve, reject, deadline, doubtful: false });
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
    if (this.#woken || this.#taken !== null || this.#fault !== null) return;
    this.#woken = true;
    const sinceMs = performance.now() - this.#wroteAt;
    if (this.#running.size + this.#pending.requests < MANY || sinceMs >= PACE_MS) setImmediate(this.#write);
    else setTimeout(this.#write, PACE_MS - sinceMs);
  }

  readonly #write = (): void => {
    this.#woken = false;
    if (this.#taken !== null || this.#fault !== null || this.#epoch === null || this.#pending.isEmpty) return;
    this.#wroteAt = performance.now();
    void this.#writeSome(this.#epoch).then(() => {
      if (!this.#pending.isEmpty) this.#wake();
    });
  };

  async #writeSome(epoch: number): Promise<void> {
    this.#taken = this.#pending.take();
    await this.#attempt(this.#taken, epoch);
    if (this.#fault === null) await this.#waive();
    this.#taken = null;
    if (this.#isIdle) this.#whenIdle();
  }

  /** Settles everything that was taken one way or another; never rejects. */
  async #attempt(taken: Taken, epoch: number): Promise<void> {
    try {
      const answer = await this.#options.store.write(epoch, toBatch(taken));
      if (answer === null) this.#fenced(taken, epoch);
      else this.#written(taken, new Set(answer.lost), epoch);
    } catch (error) {
      if (!(error instanceof RefusedWriteError)) this.#putBack(taken, error, epoch);
      else await this.#writeApart(taken, error, epoch);
    }
  }

  /** Takes back what was written although its request was told otherwise; never rejects. */
  async #waive(): Promise<void> {
    const waived = [...this.#pending.waived];
    if (waived.length === 0) return;
    try {
      await this.#options.store.waive(waived);
      this.#pending.waivedAre(waived.length);
    } catch (error) {
      this.#failed(error instanceof Error ? error.message : String(error), error);
    }
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
    if (this.#epoch === epoch) this.#healed();
  }

  #fenced(taken: Taken, epoch: number): void {
    for (const { reject } of taken.opens) reject(this.#unavailable());
    for (const settling of taken.settles) this.#lost(settling);
    if (this.#epoch === epoch) this.#options.onFenced(epoch);
  }

  #putBack(taken: Taken, error: unknown, epoch: number): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#failed(reason, error);
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

  /** One write that the database will never take must not keep the others from it. */
  async #writeApart(taken: Taken, error: RefusedWriteError, epoch: number): Promise<void> {
    const parts = apart(taken);
    if (parts.length > 1) {
      for (const part of parts) {
        if (this.#fault === null) await this.#attempt(part, epoch);
        else this.#putBack(part, error, epoch);
      }
      return;
    }
    this.#options.log.error('the database refuses a row of the ledger', {
      id: taken.opens[0]?.row.id ?? (taken.settles[0] && idOf(taken.settles[0])),
      error,
    });
    for (const { reject } of [...taken.opens, ...taken.settles]) reject(this.#unavailable(error));
  }

  /** From now on nothing is opened; what waited to be is refused. */
  #failed(reason: string, error?: unknown): void {
    const { log } = this.#options;
    if (this.#fault === null) {
      if (!this.#closing) log.error('the ledger cannot be written', { reason, error: asError(error) });
      const now = performance.now();
      // A disk that takes a little and then no more shall not be tried, nor told of, many times a second.
      const pauseMs = now - this.#healedAt < RELAPSE_MS ? LONGEST_PAUSE_MS : PAUSE_MS;
      this.#fault = { since: now, pauseMs, reason };
    } else {
      this.#fault.reason = reason;
    }
    for (const { reject } of this.#pending.takeOpens()) reject(this.#unavailable(error));
    this.#retry ??= setTimeout(() => void this.#tryAgain(), this.#fault.pauseMs).unref();
    this.#fault.pauseMs = Math.min(this.#fault.pauseMs * 2, LONGEST_PAUSE_MS);
  }

  /**
   * A heartbeat tells whether the database takes writes again, so that no request has to try; then what is kept is
   * written before anything is opened.
   */
  async #tryAgain(): Promise<void> {
    this.#retry = undefined;
    const epoch = this.#epoch;
    // Whoever makes this copy live again goes on.
    if (epoch === null) return;
    if (this.#taken !== null) {
      this.#retry = setTimeout(() => void this.#tryAgain(), PAUSE_MS).unref();
      return;
    }
    try {
      const live = await this.#options.store.beat(epoch, this.#options.leaseMs);
      if (this.#epoch !== epoch) return;
      if (!live) this.#options.onFenced(epoch);
      else if (this.#pending.isEmpty) this.#healed();
      else {
        await this.#writeSome(epoch);
        this.#wake();
      }
    } catch (error) {
      if (this.#epoch === epoch) this.#failed(error instanceof Error ? error.message : String(error), error);
    }
  }

  #healed(): void {
    if (this.#fault !== null) {
      const awayMs = Math.round(performance.now() - this.#fault.since);
      this.#fault = null;
      this.#healedAt = performance.now();
      clearTimeout(this.#retry);
      this.#retry = undefined;
      this.#options.log.info('the ledger can be written', { awayMs });
    }
    this.#wake();
  }

  #unavailable(cause?: unknown): ServiceError {
    return new ServiceError('storage_unavailable', 'The ledger of requests cannot be written now.', {
      cause: cause ?? this.#fault?.reason,
    });
  }
}

function ignore(): void {}

function asError(error: unknown): Error | undefined {
  return error instanceof Error ? error : undefined;
}
