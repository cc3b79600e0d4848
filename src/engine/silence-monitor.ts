import { tickEvery } from '../deadline.ts';

/** A stream that resets `silentTicks` to 0 whenever it receives data. */
export interface MonitoredStream {
  silentTicks: number;
  onTick(tickMs: number): void;
}

/**
 * One timer for all streams of a replica, so that a chunk costs no timer. Silence is counted in ticks, so time in which
 * this process was suspended does not count. Timeouts are enforced up to two ticks late.
 */
export class SilenceMonitor implements Disposable {
  readonly #streams = new Set<MonitoredStream>();
  readonly #ticks: Disposable;

  /** A tick is a tenth of the shortest timeout, between 20 ms and 1 s. */
  constructor(timeoutMs: number) {
    const tickMs = Math.min(Math.max(timeoutMs / 10, 20), 1000);
    this.#ticks = tickEvery(tickMs, () => {
      for (const stream of this.#streams) {
        stream.silentTicks++;
        stream.onTick(tickMs);
      }
    });
  }

  add(stream: MonitoredStream): void {
    this.#streams.add(stream);
  }

  delete(stream: MonitoredStream): void {
    this.#streams.delete(stream);
  }

  [Symbol.dispose](): void {
    this.#ticks[Symbol.dispose]();
    this.#streams.clear();
  }
}
