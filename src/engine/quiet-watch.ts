import { tickEvery } from '../deadline.ts';

/** What is told of each tick. It sets `quietTicks` to 0 whenever it hears something. */
export interface Watched {
  quietTicks: number;
  onTick(tickMs: number): void;
}

/**
 * One timer for all streams of a replica: a chunk costs one store and no timer. Silence is counted in ticks, not read
 * from a clock, so the time in which this process stood still is not counted. Limits are enforced up to two ticks late.
 */
export class QuietWatch implements Disposable {
  readonly #watched = new Set<Watched>();
  readonly #ticks: Disposable;

  /** `limitMs`: the shortest silence that matters; a tick is a tenth of it, within 20 ms and 1 s. */
  constructor(limitMs: number) {
    const tickMs = Math.min(Math.max(limitMs / 10, 20), 1000);
    this.#ticks = tickEvery(tickMs, () => {
      for (const watched of this.#watched) {
        watched.quietTicks++;
        watched.onTick(tickMs);
      }
    });
  }

  add(watched: Watched): void {
    this.#watched.add(watched);
  }

  delete(watched: Watched): void {
    this.#watched.delete(watched);
  }

  [Symbol.dispose](): void {
    this.#ticks[Symbol.dispose]();
    this.#watched.clear();
  }
}
