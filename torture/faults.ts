import { setTimeout as pause } from 'node:timers/promises';
import type { Blow } from './blow.ts';
import type { Books } from './books.ts';
import { call } from './caller.ts';
import type { Difference } from './compare.ts';
import { LEASE_MS } from './configuration.ts';
import { send } from './program.ts';
import type { Random } from './random.ts';
import type { Stage } from './stage.ts';
import { KINDS, type Target } from './strikes.ts';

/** Pause between two faults, in milliseconds. Many last longer, so that faults meet. */
const GAP_MS = { least: 50, most: 600 };

/**
 * Most faults wait until the callers have had some answers since the last one, up to so many and for so long: where
 * nothing works, nothing can be lost. The others come while the service may still be on the ground.
 */
const ANSWERS = { most: 8, share: 0.75, longestMs: 1500 };

/** Strikes a stage with faults whose order, targets and lengths a generator of random numbers gives. */
export class Faults implements Disposable {
  readonly counts = new Map<string, number>();
  readonly #stage: Stage;
  readonly #random: Random;
  readonly #stop: AbortSignal;
  readonly #books: Books;
  #asked = 0;
  /** What must not have happened during a fault, beyond what the ledger shows. */
  readonly differences: Difference[] = [];
  /** Processes that are stopped now. */
  readonly #frozen = new Set<number>();
  /** The last blow on each target; resolves when it is over. */
  readonly #underWay = new Map<string, Promise<void>>();

  constructor(stage: Stage, random: Random, stop: AbortSignal, books: Books) {
    this.#stage = stage;
    this.#random = random;
    this.#stop = stop;
    this.#books = books;
  }

  get struck(): number {
    return this.counts.values().reduce((sum, count) => sum + count, 0);
  }

  /**
   * So many faults, one after another but not each after the end of the one before, or until it is enough. Resolves
   * when all are over.
   */
  async strike(count: number, enough: AbortSignal): Promise<void> {
    for (let number = 0; number < count && !enough.aborted; number++) {
      const [gapMs, answers] = [
        this.#random.between(GAP_MS.least, GAP_MS.most),
        this.#random.chance(ANSWERS.share) ? this.#random.between(1, ANSWERS.most) : 0,
      ];
      await this.#pause(gapMs);
      await this.#answered(answers);
      await this.#next();
    }
    await Promise.all(this.#underWay.values());
  }

  /** Lets everything run that was stopped. */
  [Symbol.dispose](): void {
    for (const pid of this.#frozen) send('SIGCONT', pid);
  }

  /** Waits until so many more answers have come. */
  async #answered(count: number): Promise<void> {
    const wanted = this.#books.answers + count;
    const deadline = performance.now() + ANSWERS.longestMs;
    while (this.#books.answers < wanted && performance.now() < deadline) await this.#pause(20);
  }

  /** Begins the next fault, once what it hits is not being hit. */
  async #next(): Promise<void> {
    const stage = this.#stage;
    const kind = this.#random.weighted(
      KINDS.filter(
        ({ target, sqlite = false }) => countOf(target, stage) > 0 && (!sqlite || stage.disk !== null),
      ),
    );
    const index = this.#random.between(0, countOf(kind.target, stage) - 1);
    const lastsMs = this.#random.between(...kind.lastsMs);
    const target = `${kind.target} ${index}`;
    if (kind.alone) {
      await Promise.all(this.#underWay.values());
      await stage.healthy();
      // A copy that was paused learns with its next heartbeat, three in a lease, that its lease has ended.
      await this.#pause(LEASE_MS / 2);
      await stage.healthy();
    }
    await this.#underWay.get(target);
    this.counts.set(kind.name, (this.counts.get(kind.name) ?? 0) + 1);
    const lasts = () => this.#pause(lastsMs);
    const blow: Blow = {
      stage,
      index,
      lasts,
      random: this.#random.fork(String(this.struck)),
      freeze: (pids) => this.#freeze(pids, lasts),
      nextId: () => `torture-fault-${++this.#asked}`,
      ask: async (wish) => {
        const entry = await call(stage.copies[wish.copy]?.url ?? '', wish);
        this.#books.write(entry);
        return entry;
      },
      report: (difference) => this.differences.push(difference),
    };
    const over = kind.strike(blow);
    // Who strikes the target next, or waits for the end, is told.
    over.catch(() => {});
    this.#underWay.set(target, over);
    if (kind.alone) await over;
  }

  async #freeze(pids: readonly number[], lasts: () => Promise<void>): Promise<void> {
    const stopped = pids.filter((pid) => send('SIGSTOP', pid));
    for (const pid of stopped) this.#frozen.add(pid);
    await lasts();
    for (const pid of stopped) {
      send('SIGCONT', pid);
      this.#frozen.delete(pid);
    }
  }

  async #pause(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#stop });
  }
}

/** How many there are of what a fault can hit. */
function countOf(target: Target, stage: Stage): number {
  switch (target) {
    case 'copy':
    case 'embedded':
      return stage.copies.length;
    case 'engine':
      return stage.engines.length;
    case 'rows':
      return stage.disk === null ? 0 : 1;
    case 'disk':
    case 'postgres':
    case 'valkey':
      return stage[target] === null ? 0 : 1;
  }
}
