import type { OpenedRow, RunningCounts, SettleResult } from './ledger.ts';
import {
  checkpointValues,
  openedValues,
  usageKeyOf,
  waivedValues,
  type Batch,
  type EndedRequest,
  type RowStart,
  type UsageKey,
  type SettledValues,
  type Value,
} from './write.ts';

/** Maximum rows of each kind in a batch; limits how long the next batch waits. */
const BATCH_ROWS = 1000;

/** The row of a running request. */
export interface RunningRow extends RowStart {
  id: string;
  usageKey: UsageKey;
  counts: RunningCounts;
  epoch: number;
  /** Result of `progressOf` for its counts at the last checkpoint. */
  writtenProgress: number;
}

export function runningRow(row: OpenedRow, counts: RunningCounts, epoch: number): RunningRow {
  const { id, startedAt, pricePrompt: prompt, priceCompletion: completion } = row;
  const price = { prompt, completion };
  return { id, usageKey: usageKeyOf(row), startedAt, counts, epoch, price, writtenProgress: 0 };
}

/** A row that is not written yet, or is being written. */
export interface PendingOpen {
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
export interface PendingSettlement {
  values: SettledValues;
  usageKey: UsageKey;
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
export interface PendingBatch {
  opens: readonly PendingOpen[];
  settles: readonly PendingSettlement[];
  checkpoints: readonly RunningRow[];
  undelivered: readonly string[];
}

/** Returns a number that changes whenever a count of a running request changes. */
export function progressOf({ usage, slotAt, firstTokenAt }: RunningCounts): number {
  const times = Number(slotAt !== null) + Number(firstTokenAt !== null);
  const { promptTokens, cachedTokens, completionTokens, reasoningTokens } = usage;
  return promptTokens + cachedTokens + completionTokens + reasoningTokens + times;
}

export function idOf(settling: PendingSettlement): string {
  return settling.values[0];
}

/** Writes that wait for the next batch, in order. */
export class PendingWrites {
  #opens: PendingOpen[] = [];
  /** Number of `#opens` that are due. */
  #dueOpens = 0;
  #settles: PendingSettlement[] = [];
  #undelivered: string[] = [];
  readonly #checkpoints = new Map<string, RunningRow>();
  /** Values of settlements that may have been written although their requests were rejected. */
  #waived: SettledValues[] = [];

  get isEmpty(): boolean {
    return this.#opens.length === 0 && !this.isDue;
  }

  /** Whether there is anything to write now. */
  get isDue(): boolean {
    const rows = this.#dueOpens + this.#settles.length + this.#undelivered.length;
    return rows + this.#checkpoints.size + this.#waived.length > 0;
  }

  /** A copy of the settlements to cancel, because `removeWaived` shortens the list while they are written in parts. */
  get waived(): Batch['settles'] {
    return [...this.#waived];
  }

  /** The number of requests that wait to be opened or settled. */
  get requests(): number {
    return this.#opens.length + this.#settles.length;
  }

  get settles(): readonly PendingSettlement[] {
    return this.#settles;
  }

  /** Adds a row to open. The row of a stream is due immediately, because the stream waits for it. */
  open(
    row: OpenedRow,
    running: RunningRow,
    resolve: () => void,
    reject: (error: Error) => void,
  ): PendingOpen {
    const opening = { row, running, due: false, settlement: null, merged: false, resolve, reject };
    this.#opens.push(opening);
    if (row.streamed) this.#makeDue(opening);
    return opening;
  }

  /** Adds the settlement of a row that is not written yet. Both are written in the same batch if possible. */
  settleOpening(opening: PendingOpen, settling: PendingSettlement): void {
    opening.settlement = settling;
    this.#makeDue(opening);
  }

  /** Makes all rows that wait to be opened part of the next batch. */
  makeAllDue(): void {
    for (const opening of this.#opens) this.#makeDue(opening);
  }

  settle(settling: PendingSettlement): void {
    this.#settles.push(settling);
    this.#checkpoints.delete(idOf(settling));
  }

  checkpoint(running: RunningRow): void {
    this.#checkpoints.set(running.id, running);
  }

  undelivered(id: string): void {
    this.#undelivered.push(id);
  }

  /** Cancels the charge of a settlement, even if an earlier attempt may already have written it. */
  waive(settling: PendingSettlement): void {
    const values = waivedValues(settling.values);
    if (values === null) return;
    if (settling.doubtful) this.#waived.push(settling.values);
    settling.values = values;
  }

  /** Removes the first waived settlements after they were written. */
  removeWaived(count: number): void {
    this.#waived.splice(0, count);
  }

  /** Removes and returns the next batch. */
  take(): PendingBatch {
    const checkpoints = [...this.#checkpoints.values()].slice(0, BATCH_ROWS);
    for (const { id } of checkpoints) this.#checkpoints.delete(id);
    return {
      opens: this.#takeDue(),
      settles: this.#settles.splice(0, BATCH_ROWS),
      undelivered: this.#undelivered.splice(0, BATCH_ROWS),
      checkpoints,
    };
  }

  takeOpens(): PendingOpen[] {
    this.#dueOpens = 0;
    return this.#opens.splice(0);
  }

  #takeDue(): PendingOpen[] {
    const due: PendingOpen[] = [];
    const others: PendingOpen[] = [];
    for (const opening of this.#opens) (opening.due && due.length < BATCH_ROWS ? due : others).push(opening);
    this.#opens = others;
    this.#dueOpens -= due.length;
    for (const opening of due) opening.merged = opening.settlement !== null;
    return due;
  }

  #makeDue(opening: PendingOpen): void {
    if (opening.due) return;
    opening.due = true;
    this.#dueOpens++;
  }

  /** Puts settlements and undelivered IDs back at the front. Drops checkpoints, because later ones replace them. */
  requeue({ settles, undelivered }: Pick<PendingBatch, 'settles' | 'undelivered'>): void {
    this.#settles.unshift(...settles);
    this.#undelivered.unshift(...undelivered);
  }

  /** Drops everything except openings, and returns the pending settlements. */
  clear(): PendingSettlement[] {
    this.#undelivered = [];
    this.#checkpoints.clear();
    return this.#settles.splice(0);
  }
}

/** Returns the values of a batch, with the current counts. */
export function toBatch(batch: PendingBatch): Batch {
  const now = Date.now();
  const opens: Value[][] = [];
  const ended: EndedRequest[] = [];
  for (const { row, running, settlement, merged } of batch.opens) {
    const opened = openedValues(row);
    if (!merged || settlement === null) opens.push(opened);
    else ended.push({ opened, settled: settlement.values, usageKey: running.usageKey });
  }
  return {
    opens,
    ended,
    checkpoints: batch.checkpoints.map((running) => {
      running.writtenProgress = progressOf(running.counts);
      return checkpointValues(running.id, running.counts, now);
    }),
    settles: batch.settles.map(({ values }) => values),
    usageKeys: batch.settles.map(({ usageKey }) => usageKey),
    undelivered: batch.undelivered,
  };
}

/**
 * Splits a refused batch into two. A batch with only an ended request becomes one that only opens its row, because the
 * database may have refused just the settlement. Any other batch with one write cannot be split: the result is empty.
 */
export function splitBatch({ opens, settles, checkpoints, undelivered }: PendingBatch): PendingBatch[] {
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
