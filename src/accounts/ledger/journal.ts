import type { ConfigFile } from '../../config/schema.ts';
import { Deadline } from '../../support/deadline.ts';
import type { Log } from '../../support/log.ts';
import { asError } from '../../support/thrown.ts';
import type { TokenPrice } from './cost.ts';
import {
  ledgerUnavailable,
  type LedgerHealth,
  type LedgerWrites,
  type OpenedRow,
  type RunningCounts,
  type SettleResult,
  type Settlement,
} from './ledger.ts';
import { Outage, type RetryPauses } from './outage.ts';
import { RefusedWriteError, type BatchResult, type LedgerStore } from './store.ts';
import {
  checkpointValues,
  emptyValues,
  endedValues,
  isCountable,
  openedValues,
  priceOf,
  settledValues,
  waivedValues,
  type Batch,
  type Values,
} from './write.ts';

interface JournalOptions {
  settings: ConfigFile['ledger'];
  store: LedgerStore;
  log: Log;
  retry: RetryPauses;
  /** Called when a write finds that this epoch has ended. */
  onFenced: (epoch: number) => void;
}

/** Maximum rows of each kind in a batch; limits how long the next batch waits. */
const BATCH_ROWS = 1000;

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
  // The writes that wait for the next batch, in order.
  #opens: PendingOpen[] = [];
  readonly #checkpoints = new Map<string, RunningRow>();
  #settles: PendingSettlement[] = [];
  #undelivered: string[] = [];
  /** IDs of settlements that may have been written although their requests were rejected. Their charge is canceled. */
  #waived: string[] = [];
  /** The batch that is being written. */
  #batch: PendingBatch | null = null;
  /** The epoch that rows are written with; null while this instance is not registered. */
  #epoch: number | null = null;
  readonly #outage: Outage;
  readonly #schedule: WriteSchedule;
  /** See `Ledger.writes`. */
  readonly writes: LedgerWrites = { count: 0, failures: 0, rows: 0, totalMs: 0, currentSinceMs: null };
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
    const waiting = (this.#batch?.settles.length ?? 0) + this.#settles.length;
    return { writable: false, waiting, ...outage };
  }

  /** See `Ledger.open`. */
  open(row: OpenedRow, counts: RunningCounts): Promise<void> {
    const epoch = this.#epoch;
    if (epoch === null || this.#outage.active || this.#closing) return Promise.reject(this.#unavailable());
    return new Promise((resolve, reject) => {
      const running = runningRow(row, counts, epoch);
      // A stream waits for its row.
      const due = row.streamed;
      const opening = { row, running, due, settlement: null, merged: false, resolve, reject };
      this.#openings.set(row.id, opening);
      this.#opens.push(opening);
      if (due) this.#scheduleWrite();
      else this.#schedule.later();
    });
  }

  /** See `Ledger.checkpoint`. */
  checkpoint(id: string): void {
    const running = this.#openRows.get(id);
    if (running === undefined || running.epoch !== this.#epoch) return;
    this.#checkpoints.set(id, running);
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
      this.#settle(emptyValues(id, 'settled'), IGNORE, IGNORE);
      return Promise.reject(this.#unavailable('impossible token counts'));
    }
    const values = settledValues(id, running.price, settlement);
    return new Promise((resolve, reject) => this.#settle(values, resolve, reject));
  }

  /** See `Ledger.undelivered`. */
  undelivered(id: string): void {
    if (this.#epoch === null) return;
    this.#undelivered.push(id);
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
    for (const settling of this.#settles.splice(0)) this.#resolveLost(settling);
    this.#undelivered = [];
    this.#checkpoints.clear();
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
      using _limit = new Deadline(this.#options.settings.settleWaitMs, resolve);
      this.#onIdle = resolve;
      await promise;
    }
    this.suspend('The ledger is closed.');
    this.#openRows.clear();
    this.#outage[Symbol.dispose]();
    this.#overdueTimer?.[Symbol.dispose]();
    this.#schedule[Symbol.dispose]();
  }

  #settle(values: Values, resolve: (settled: SettleResult) => void, reject: (error: Error) => void): void {
    const deadline = performance.now() + this.#options.settings.settleWaitMs;
    const settling = { values, resolve, reject, deadline, doubtful: false, closes: false };
    const opening = this.#openings.get(values[0]);
    if (opening === undefined) {
      this.#addSettlement(settling);
    } else {
      // Both are written in the same batch if possible.
      opening.settlement = settling;
      opening.due = true;
    }
    // One timer for all settlements, because few are ever overdue.
    this.#overdueTimer ??= new Deadline(this.#options.settings.settleWaitMs, () => this.#rejectOverdue());
    this.#scheduleWrite();
  }

  #addSettlement(settling: PendingSettlement): void {
    this.#settles.push(settling);
    this.#checkpoints.delete(idOf(settling));
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
    for (const settling of this.#settles) {
      if (settling.deadline > now) {
        next = Math.min(next, settling.deadline);
      } else if (settling.deadline > -Infinity) {
        this.#waiveCharge(settling);
        settling.deadline = -Infinity;
        settling.reject(this.#unavailable());
      }
    }
    if (next < Infinity) this.#overdueTimer = new Deadline(next - now, () => this.#rejectOverdue());
  }

  /** Resolves a settlement as `lost`, and cancels its charge in case an earlier attempt was written. */
  #resolveLost(settling: PendingSettlement): void {
    this.#waiveCharge(settling);
    settling.resolve('lost');
  }

  /** Cancels the charge of a settlement, even if an earlier attempt may already have written it. */
  #waiveCharge(settling: PendingSettlement): void {
    const values = waivedValues(settling.values);
    if (values === null) return;
    if (settling.doubtful) this.#waived.push(idOf(settling));
    settling.values = values;
  }

  get #isIdle(): boolean {
    return this.#batch === null && this.#opens.length === 0 && !this.#isDue;
  }

  /** Whether there is anything to write now. */
  get #isDue(): boolean {
    const rows = this.#checkpoints.size + this.#settles.length + this.#undelivered.length;
    return rows + this.#waived.length > 0 || this.#opens.some(({ due }) => due);
  }

  #scheduleWrite(): void {
    if (this.#batch !== null || this.#outage.active) return;
    this.#schedule.soon(this.#openRows.size + this.#opens.length + this.#settles.length);
  }

  readonly #write = (): void => {
    if (this.#batch !== null || this.#outage.active || this.#epoch === null || !this.#isDue) return;
    this.#schedule.writing();
    void this.#writeBatch(this.#epoch).then(() => {
      if (this.#isDue) this.#scheduleWrite();
    });
  };

  /** Writes everything, including rows that wait for their settlement. */
  readonly #writeAll = (): void => {
    for (const opening of this.#opens) opening.due = true;
    this.#scheduleWrite();
  };

  async #writeBatch(epoch: number): Promise<void> {
    this.#batch = this.#take();
    // A copy, because `#waive` shortens the list.
    const responded = (await this.#tryWrite(this.#batch, epoch)) && (await this.#waive([...this.#waived]));
    this.#batch = null;
    if (responded && this.#epoch === epoch) this.#endOutage();
    if (this.#isIdle) this.#onIdle();
  }

  /** Removes and returns the next batch. */
  #take(): PendingBatch {
    const opens = this.#opens.filter(({ due }) => due).slice(0, BATCH_ROWS);
    for (const opening of opens) opening.merged = opening.settlement !== null;
    const taken = new Set(opens);
    this.#opens = this.#opens.filter((opening) => !taken.has(opening));
    const checkpoints = [...this.#checkpoints.values()].slice(0, BATCH_ROWS);
    for (const { id } of checkpoints) this.#checkpoints.delete(id);
    const settles = this.#settles.splice(0, BATCH_ROWS);
    const undelivered = this.#undelivered.splice(0, BATCH_ROWS);
    return { opens, settles, checkpoints, undelivered };
  }

  /**
   * Writes a batch and settles the promises of its requests. Returns true if the database accepted or refused every
   * row. Otherwise, the batch is pending again, unless another instance has settled its rows. Never rejects.
   */
  async #tryWrite(batch: PendingBatch, epoch: number): Promise<boolean> {
    try {
      const result = await this.#measured(toBatch(batch), epoch);
      if (result === null) this.#resolveFenced(batch, epoch);
      else this.#written(batch, new Set(result.lost), epoch);
      return result !== null;
    } catch (error) {
      if (error instanceof RefusedWriteError) return await this.#writeParts(batch, error, epoch);
      this.#requeue(batch, error, epoch);
      return false;
    }
  }

  /** Writes a batch and counts the write. */
  async #measured(batch: Batch, epoch: number): Promise<BatchResult | null> {
    const { writes } = this;
    const startedAtMs = performance.now();
    writes.currentSinceMs = startedAtMs;
    try {
      const result = await this.#options.store.write(epoch, batch);
      writes.rows += rowsOf(batch);
      return result;
    } catch (error) {
      writes.failures++;
      throw error;
    } finally {
      writes.currentSinceMs = null;
      writes.count++;
      writes.totalMs += performance.now() - startedAtMs;
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
  async #waive(ids: readonly string[]): Promise<boolean> {
    if (ids.length === 0) return true;
    try {
      await this.#options.store.waive(ids);
    } catch (error) {
      if (!(error instanceof RefusedWriteError)) {
        this.#startOutage(asError(error).message, error);
        return false;
      }
      if (ids.length > 1) {
        const middle = ids.length >> 1;
        return (await this.#waive(ids.slice(0, middle))) && (await this.#waive(ids.slice(middle)));
      }
      this.#options.log.error('the database refused to cancel a charge', { id: ids[0], error });
    }
    this.#waived.splice(0, ids.length);
    return true;
  }

  #written(batch: PendingBatch, lost: ReadonlySet<string>, epoch: number): void {
    for (const { running, settlement, merged, resolve } of batch.opens) {
      this.#openings.delete(running.id);
      if (settlement === null) this.#openRows.set(running.id, running);
      else if (merged) settlement.resolve('settled');
      else if (epoch === this.#epoch) this.#addSettlement(settlement);
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
      // The row may exist if only the response was lost.
      const values = emptyValues(opening.running.id, 'interrupted');
      if (this.#epoch === epoch) this.#settle(values, IGNORE, IGNORE);
    }
    for (const running of batch.checkpoints) running.writtenProgress = NaN;
    for (const settling of batch.settles) {
      settling.doubtful = true;
      if (this.#epoch !== epoch) this.#resolveLost(settling);
    }
    if (this.#epoch !== epoch) return;
    this.#settles.unshift(...batch.settles);
    this.#undelivered.unshift(...batch.undelivered);
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
    const values = emptyValues(id, 'settled');
    this.#addSettlement({ ...settling, values, closes: true, deadline: -Infinity });
    this.#scheduleWrite();
  }

  /** Starts an outage, during which no request is opened, and rejects the requests that are waiting to be opened. */
  #startOutage(reason: string, error?: unknown): void {
    if (this.#outage.begin(reason) && !this.#closing) {
      const fields = { reason, ...(error instanceof Error && { error }) };
      this.#options.log.error('the ledger is not writable', fields);
    }
    for (const opening of this.#opens.splice(0)) this.#rejectOpen(opening, error);
  }

  /**
   * Checks with a heartbeat whether the outage is over, and if so, writes the next batch. Does nothing while this
   * instance has no epoch, because `resume` then ends the outage. Never rejects.
   */
  async #probe(): Promise<void> {
    const epoch = this.#epoch;
    if (epoch === null) return;
    try {
      const live = await this.#options.store.heartbeat(epoch, this.#options.settings.leaseMs);
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

function rowsOf({ opens, ended, checkpoints, settles, undelivered }: Batch): number {
  return opens.length + ended.length + checkpoints.length + settles.length + undelivered.length;
}

interface RunningRow {
  id: string;
  price: TokenPrice;
  counts: RunningCounts;
  epoch: number;
  /** Result of `progressOf` for its counts at the last checkpoint. */
  writtenProgress: number;
}

function runningRow(row: OpenedRow, counts: RunningCounts, epoch: number): RunningRow {
  return { id: row.id, price: priceOf(row), counts, epoch, writtenProgress: 0 };
}

/** A row that is not written yet, or is being written. */
interface PendingOpen {
  row: OpenedRow;
  running: RunningRow;
  /** Whether it is part of the next batch. */
  due: boolean;
  /** The settlement, if the request has already ended. */
  settlement: PendingSettlement | null;
  /** Whether `settlement` is written with the row. */
  merged: boolean;
  resolve: () => void;
  reject: (error: Error) => void;
}

/** A settlement that is not written yet. Its request may already have been rejected. */
interface PendingSettlement {
  values: Values;
  /** The time of `performance.now` at which the request is rejected if this is still pending. */
  deadline: number;
  resolve: (settled: SettleResult) => void;
  reject: (error: Error) => void;
  /** Whether an attempt to write it has failed. If only the response was lost, it is in the database. */
  doubtful: boolean;
  /** Whether it replaces a settlement that the database refused. */
  closes: boolean;
}

/** The writes of one batch. */
interface PendingBatch {
  opens: readonly PendingOpen[];
  settles: readonly PendingSettlement[];
  checkpoints: readonly RunningRow[];
  undelivered: readonly string[];
}

/** Returns a number that changes whenever a count of a running request changes. */
function progressOf({ usage, slotAt, firstTokenAt }: RunningCounts): number {
  const times = Number(slotAt != null) + Number(firstTokenAt != null);
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = usage;
  return promptTokens + cachedTokens + completionTokens + reasoningTokens + times;
}

function idOf(settling: PendingSettlement): string {
  return settling.values[0];
}

/** Returns the values of a batch, with the current counts. */
function toBatch(batch: PendingBatch): Batch {
  const now = Date.now();
  const opens: Values[] = [];
  const ended: Values[] = [];
  for (const { row, settlement, merged } of batch.opens) {
    const opened = openedValues(row);
    if (!merged || settlement === null) opens.push(opened);
    else ended.push(endedValues(opened, settlement.values));
  }
  return {
    opens,
    ended,
    checkpoints: batch.checkpoints.map((running) => {
      running.writtenProgress = progressOf(running.counts);
      return checkpointValues(running.id, running.counts, now);
    }),
    settles: batch.settles.map(({ values }) => values),
    undelivered: batch.undelivered,
  };
}

/**
 * Splits a refused batch into two. A batch with only an ended request becomes one that only opens its row, because the
 * database may have refused just the settlement. Any other batch with one write cannot be split: the result is empty.
 */
function splitBatch({ opens, settles, checkpoints, undelivered }: PendingBatch): PendingBatch[] {
  const sizes = [opens.length, settles.length, checkpoints.length, undelivered.length];
  const middle = sizes.reduce((sum, size) => sum + size) >> 1;
  if (middle === 0) {
    const [opening] = opens;
    if (opening?.merged !== true) return [];
    opening.merged = false;
    return [{ opens, settles, checkpoints, undelivered }];
  }
  let left = middle;
  const cut = <T>(writes: readonly T[]) => {
    const first = writes.slice(0, left);
    left -= first.length;
    return [first, writes.slice(first.length)] as const;
  };
  const [opened, settled, running, lost] = [cut(opens), cut(settles), cut(checkpoints), cut(undelivered)];
  return [
    { opens: opened[0], settles: settled[0], checkpoints: running[0], undelivered: lost[0] },
    { opens: opened[1], settles: settled[1], checkpoints: running[1], undelivered: lost[1] },
  ];
}

/** With at least this many requests, commits are at least `COMMIT_PACE_MS` milliseconds apart. */
const PACED_REQUESTS = 20;
const COMMIT_PACE_MS = 4;

/** Maximum delay of a write that nothing waits for, in milliseconds. */
const DELAY_MS = 100;

/** Decides when the next batch is written. */
class WriteSchedule implements Disposable {
  readonly #write: () => void;
  readonly #writeDelayed: () => void;
  #scheduled = false;
  #lastWriteAtMs = -Infinity;
  #delay: NodeJS.Timeout | undefined;

  /** `writeDelayed` must also write the rows for which `later` was called. */
  constructor(write: () => void, writeDelayed: () => void) {
    this.#write = write;
    this.#writeDelayed = writeDelayed;
  }

  /**
   * Calls `write` at the end of this turn of the event loop, so that all writes of the turn share a commit. With many
   * `requests`, waits for `COMMIT_PACE_MS`, because committing one row costs as much as committing ten.
   */
  soon(requests: number): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const sinceMs = performance.now() - this.#lastWriteAtMs;
    if (requests < PACED_REQUESTS || sinceMs >= COMMIT_PACE_MS) setImmediate(this.#run);
    else setTimeout(this.#run, COMMIT_PACE_MS - sinceMs);
  }

  /** Calls `writeDelayed` within `DELAY_MS`. */
  later(): void {
    this.#delay ??= setTimeout(() => {
      this.#delay = undefined;
      this.#writeDelayed();
    }, DELAY_MS);
  }

  /** Records that a batch is being written. */
  writing(): void {
    this.#lastWriteAtMs = performance.now();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#delay);
  }

  readonly #run = (): void => {
    this.#scheduled = false;
    this.#write();
  };
}
