import { usdText } from '../accounts/ledger/cost.ts';
import type { ServiceError } from '../errors.ts';
import type { GenerationRecord } from '../inference/record.ts';
import { Counter, Histogram, sample, SeriesTable } from '../metrics/series.ts';
import { METRICS } from '../metrics/table.ts';
import { PROTOCOLS } from './protocols.ts';
import type { RequestSummary } from './request-log.ts';

/** The label `model` of requests that were refused before their model was known. */
const UNKNOWN_MODEL = 'unknown';

const GENERATION_PATHS: ReadonlySet<string | undefined> = new Set(PROTOCOLS.map(({ path }) => path));

/**
 * The metrics of one service. Request metrics are recorded when a request ends; the others are read from other
 * objects at each scrape.
 */
export class ServiceMetrics implements Disposable {
  readonly #exposeGauges: () => string;
  readonly #requests = new Counter(METRICS.requests);
  readonly #timeToFirstToken = new Histogram(METRICS.timeToFirstToken);
  readonly #interToken = new Histogram(METRICS.interToken);
  readonly #duration = new Histogram(METRICS.duration);
  readonly #queueWait = new Histogram(METRICS.queueWait);
  readonly #promptTokens = new Counter(METRICS.promptTokens);
  readonly #cachedTokens = new Counter(METRICS.cachedTokens);
  readonly #completionTokens = new Counter(METRICS.completionTokens);
  readonly #cost = new SeriesTable(METRICS.cost, () => ({ pico: 0n }));
  readonly #retries = new Counter(METRICS.retries);
  readonly #continuations = new Counter(METRICS.continuations);
  readonly #denials = new Counter(METRICS.denials);
  readonly #eventLoopDelay = new EventLoopDelay();

  /** `exposeGauges` returns the metrics that other objects count. */
  constructor(exposeGauges: () => string) {
    this.#exposeGauges = exposeGauges;
  }

  /** Records a generation that has ended. */
  record({ model, path, status, code }: RequestSummary, record: GenerationRecord): void {
    const label = model ?? UNKNOWN_MODEL;
    this.#requests.add(1, label, path, String(status), code ?? 'ok');
    if (record.deniedBy !== null) this.#denials.add(1, label, record.deniedBy);
    if (record.attempts > 0) this.#recordRun(label, record);
  }

  /** Records a request that was sent to a replica. */
  #recordRun(model: string, record: GenerationRecord): void {
    const { usage, startedAtMs, slotAtMs, firstTokenAtMs, attempts, continuations } = record;
    const endedAtMs = record.endedAtMs ?? performance.now();
    this.#duration.observe((endedAtMs - startedAtMs) / 1000, model);
    if (slotAtMs !== null) this.#queueWait.observe((slotAtMs - startedAtMs) / 1000, model);
    if (firstTokenAtMs !== null) {
      this.#timeToFirstToken.observe((firstTokenAtMs - startedAtMs) / 1000, model);
      if (usage.completionTokens > 1) {
        const perToken = (endedAtMs - firstTokenAtMs) / (usage.completionTokens - 1);
        this.#interToken.observe(perToken / 1000, model);
      }
    }
    this.#promptTokens.add(usage.promptTokens, model);
    this.#cachedTokens.add(usage.cachedTokens, model);
    this.#completionTokens.add(usage.completionTokens, model);
    this.#cost.at(model).pico += record.costPico;
    if (attempts === 1) return;
    this.#continuations.add(continuations, model);
    this.#retries.add(attempts - 1 - continuations, model);
  }

  /** Records a request that was refused before its generation began. `path` is the path of the endpoint. */
  recordRefusal(path: string | undefined, { status, code }: ServiceError): void {
    if (path === undefined || !GENERATION_PATHS.has(path)) return;
    this.#requests.add(1, UNKNOWN_MODEL, path, String(status), code);
  }

  /** Returns all metrics in Prometheus' text format. */
  expose(): string {
    return [
      this.#requests.expose(),
      this.#timeToFirstToken.expose(),
      this.#interToken.expose(),
      this.#duration.expose(),
      this.#queueWait.expose(),
      this.#promptTokens.expose(),
      this.#cachedTokens.expose(),
      this.#completionTokens.expose(),
      this.#cost.expose((labels, { pico }) => sample(METRICS.cost.name, labels, usdText(pico))),
      this.#retries.expose(),
      this.#continuations.expose(),
      this.#denials.expose(),
      this.#exposeGauges(),
      this.#eventLoopDelay.expose(),
    ].join('');
  }

  /** Stops measuring the delay of the event loop. */
  [Symbol.dispose](): void {
    this.#eventLoopDelay[Symbol.dispose]();
  }
}

/** Interval between measurements, in milliseconds. */
const DELAY_INTERVAL_MS = 50;

/**
 * Measures how late a timer runs. Node's own histogram has no buckets that can be added up across instances, and must
 * be reset between scrapes.
 */
class EventLoopDelay implements Disposable {
  readonly #histogram = new Histogram(METRICS.eventLoopDelay);
  readonly #timer: NodeJS.Timeout;
  #dueAtMs = performance.now() + DELAY_INTERVAL_MS;

  constructor() {
    this.#timer = setInterval(() => this.#measure(), DELAY_INTERVAL_MS).unref();
  }

  #measure(): void {
    const nowMs = performance.now();
    this.#histogram.observe(Math.max(0, nowMs - this.#dueAtMs) / 1000);
    this.#dueAtMs = nowMs + DELAY_INTERVAL_MS;
  }

  expose(): string {
    return this.#histogram.expose();
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}
