import type { OpenedRow, RunningCounts, Settled } from './ledger.ts';
import {
  checkpointValues,
  openedValues,
  waivedValues,
  type Batch,
  type Opened,
  type Owner,
  type SettledValues,
} from './write.ts';

/** Most rows of one batch: bounds how long what comes meanwhile waits. */
const BATCH_ROWS = 1000;

/** A row that is open, from its opening to its settlement. */
export interface Running extends Opened {
  id: string;
  owner: Owner;
  counts: RunningCounts;
  epoch: number;
  /** `motionOf` its counts when they were last written. */
  written: number;
}

export interface Opening {
  row: OpenedRow;
  counts: RunningCounts;
  resolve: () => void;
  reject: (error: Error) => void;
}

/** A settlement, kept until it is written even when nobody waits for it any more. */
export interface Settling {
  values: SettledValues;
  owner: Owner;
  /** Until when its request waits, on the clock of `performance.now`. */
  deadline: number;
  resolve: (settled: Settled) => void;
  reject: (error: Error) => void;
  /** Whether a write of it failed: it may be written all the same, if only the answer was lost. */
  doubtful: boolean;
  /** Whether it replaces a settlement that the database refused. */
  closes: boolean;
}

/** What one batch is made of. */
export interface Taken {
  opens: readonly Opening[];
  settles: readonly Settling[];
  checkpoints: readonly Running[];
  undelivered: readonly string[];
}

/** A number that moves when any count of a running row does. */
export function motionOf({ usage, slotAt, firstTokenAt }: RunningCounts): number {
  const times = Number(slotAt !== null) + Number(firstTokenAt !== null);
  return usage.promptTokens + usage.cachedTokens + usage.completionTokens + times;
}

export function idOf(settling: Settling): string {
  return settling.values[0];
}

/** What waits to be written, in the order in which it came. */
export class PendingWrites {
  #opens: Opening[] = [];
  #settles: Settling[] = [];
  #undelivered: string[] = [];
  readonly #checkpoints = new Map<string, Running>();
  /** Values that settlements had whose requests were told that they are not written. */
  #waived: SettledValues[] = [];

  get isEmpty(): boolean {
    const rows = this.#opens.length + this.#settles.length + this.#undelivered.length;
    return rows + this.#checkpoints.size + this.#waived.length === 0;
  }

  get waived(): Batch['settles'] {
    return this.#waived;
  }

  /** How many requests wait to be opened or settled. */
  get requests(): number {
    return this.#opens.length + this.#settles.length;
  }

  get settles(): readonly Settling[] {
    return this.#settles;
  }

  open(opening: Opening): void {
    this.#opens.push(opening);
  }

  settle(settling: Settling): void {
    this.#settles.push(settling);
    this.#checkpoints.delete(idOf(settling));
  }

  checkpoint(running: Running): void {
    this.#checkpoints.set(running.id, running);
  }

  undelivered(id: string): void {
    this.#undelivered.push(id);
  }

  /** From now on it costs nothing, whatever was written of it: its request is told so. */
  waive(settling: Settling): void {
    const values = waivedValues(settling.values);
    if (values === null) return;
    if (settling.doubtful) this.#waived.push(settling.values);
    settling.values = values;
  }

  /** So many of the first were written as of no cost. */
  waivedAre(written: number): void {
    this.#waived.splice(0, written);
  }

  /** Takes a batch off. */
  take(): Taken {
    const checkpoints = [...this.#checkpoints.values()].slice(0, BATCH_ROWS);
    for (const { id } of checkpoints) this.#checkpoints.delete(id);
    return {
      opens: this.#opens.splice(0, BATCH_ROWS),
      settles: this.#settles.splice(0, BATCH_ROWS),
      undelivered: this.#undelivered.splice(0, BATCH_ROWS),
      checkpoints,
    };
  }

  takeOpens(): Opening[] {
    return this.#opens.splice(0);
  }

  /** Puts back what was not written and still has to be: checkpoints come again by themselves. */
  putBack({ settles, undelivered }: Pick<Taken, 'settles' | 'undelivered'>): void {
    this.#settles.unshift(...settles);
    this.#undelivered.unshift(...undelivered);
  }

  /** Forgets everything but openings; the settlements that were waiting. */
  clear(): Settling[] {
    this.#undelivered = [];
    this.#checkpoints.clear();
    return this.#settles.splice(0);
  }
}

/** The values to write, with the counts as they are at this moment. */
export function toBatch(taken: Taken): Batch {
  const now = Date.now();
  return {
    opens: taken.opens.map(({ row }) => openedValues(row)),
    checkpoints: taken.checkpoints.map((running) => {
      running.written = motionOf(running.counts);
      return checkpointValues(running.id, running.counts, now);
    }),
    settles: taken.settles.map(({ values }) => values),
    owners: taken.settles.map(({ owner }) => owner),
    undelivered: taken.undelivered,
  };
}

/** The two halves of a batch; none of a batch of one write. */
export function halves({ opens, settles, checkpoints, undelivered }: Taken): Taken[] {
  const sizes = [opens.length, settles.length, checkpoints.length, undelivered.length];
  const middle = sizes.reduce((sum, size) => sum + size) >> 1;
  if (middle === 0) return [];
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
