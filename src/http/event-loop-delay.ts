import { Histogram } from '../metrics/series.ts';
import { METRICS } from '../metrics/table.ts';

/** Interval between measurements, in milliseconds. */
const INTERVAL_MS = 50;

/**
 * Measures how late a timer runs. Node's own histogram has no buckets that can be added up across instances, and must
 * be reset between scrapes.
 */
export class EventLoopDelay implements Disposable {
  readonly #histogram = new Histogram(METRICS.eventLoopDelay);
  readonly #timer: NodeJS.Timeout;
  #dueAtMs = performance.now() + INTERVAL_MS;

  constructor() {
    this.#timer = setInterval(() => this.#measure(), INTERVAL_MS).unref();
  }

  #measure(): void {
    const nowMs = performance.now();
    this.#histogram.observe(Math.max(0, nowMs - this.#dueAtMs) / 1000);
    this.#dueAtMs = nowMs + INTERVAL_MS;
  }

  expose(): string {
    return this.#histogram.expose();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
