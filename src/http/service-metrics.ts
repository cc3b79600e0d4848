import type { Alerts } from '../alerts/alerts.ts';
import { usdText } from '../accounts/ledger/cost.ts';
import type { ServiceError } from '../core/errors.ts';
import type { GenerationRecord } from '../inference/record.ts';
import {
  Counter,
  Histogram,
  sample,
  SeriesTable,
  exposeSamples,
  exposeSummary,
  type Sample,
} from '../metrics/series.ts';
import { METRICS, type Metric } from '../metrics/table.ts';
import type { Accounting } from '../inference/request-accounting.ts';
import type { ReplicaState } from '../routing/replica.ts';
import type { Router } from '../routing/router.ts';
import type { ReplicaOverview } from '../routing/served-model.ts';
import { pathsOf, PROTOCOLS } from './protocols.ts';
import type { RequestSummary } from './request-log.ts';

/** The label `model` of requests that were refused before their model was known. */
const UNKNOWN_MODEL = 'unknown';

const GENERATION_PATHS: ReadonlySet<string | undefined> = new Set(PROTOCOLS.flatMap(pathsOf));

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
    if (record.deniedBy !== null) this.#denials.add(1, label, record.deniedBy.limit);
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

const STATES = [
  'downloading',
  'loading',
  'ready',
  'paused',
  'unloaded',
  'idle',
  'drained',
  'down',
] as const satisfies readonly ReplicaState['state'][];

/** Returns the metrics that other objects already count, in Prometheus' text format. */
export function exposeGauges(
  router: Router,
  swaps: number,
  accounting: Accounting,
  alerts: Pick<Alerts, 'firing' | 'sent'>,
): string {
  return (
    models(router) +
    replicas(router.reports()) +
    exposeSamples(METRICS.modelSwaps, [[[], swaps]]) +
    storage(accounting) +
    alertSamples(alerts) +
    memory()
  );
}

function models(router: Router): string {
  const overview = router.overview();
  return (
    exposeSamples(
      METRICS.running,
      overview.map(({ id, replicas: all }) => [[id], all.reduce((sum, { inFlight }) => sum + inFlight, 0)]),
    ) +
    exposeSamples(
      METRICS.waiting,
      overview.map(({ id, waiting }) => [[id], waiting]),
    )
  );
}

function replicas(reports: readonly ReplicaOverview[]): string {
  const states = reports.flatMap(({ model, name, state }) =>
    STATES.map((known) => [[model, name, known], Number(state.state === known)] as const),
  );
  const values = REPLICA_VALUES.map(([metric, read]) => {
    const samples = reports.flatMap((report): Sample[] => {
      const value = read(report) ?? null;
      return value === null ? [] : [[[report.model, report.name], value]];
    });
    return exposeSamples(metric, samples);
  });
  return exposeSamples(METRICS.replicaState, states) + values.join('');
}

/** The metrics with one value for each replica, if it reports the value. */
const REPLICA_VALUES: readonly (readonly [
  metric: Metric,
  read: (report: ReplicaOverview) => number | null | undefined,
])[] = [
  [METRICS.breakerPauses, ({ pauses }) => pauses],
  [METRICS.replicaRunning, ({ inFlight }) => inFlight],
  [METRICS.slots, ({ health }) => health?.slots],
  [METRICS.slotsInUse, ({ health }) => health?.slotsInUse],
  [METRICS.replicaQueued, ({ health }) => health?.queued],
  [METRICS.replicaPrefill, ({ prefill }) => prefill?.promptTokens ?? 0],
  [METRICS.replicaPrefillDone, ({ prefill }) => prefill?.doneTokens ?? 0],
  [METRICS.draftTokens, ({ health }) => health?.draftTokens],
  [METRICS.acceptedDraftTokens, ({ health }) => health?.acceptedDraftTokens],
  [METRICS.replicaMemory, ({ health }) => health?.memoryBytes],
  [METRICS.conversations, ({ health }) => health?.conversations?.entries],
  [METRICS.conversationBytes, ({ health }) => health?.conversations?.bytes],
  [METRICS.conversationSaves, ({ health }) => health?.conversations?.saves],
  [METRICS.conversationLoads, ({ health }) => health?.conversations?.loads],
  [
    METRICS.conversationLoadSeconds,
    ({ health }) => health?.conversations && health.conversations.loadMs / 1000,
  ],
  [METRICS.engineRestarts, ({ restarts }) => restarts],
];

function storage({ ledger, limiter }: Accounting): string {
  const { count, failures, rows, totalMs, currentSinceMs } = ledger.writes;
  const { health } = ledger;
  const writingMs = currentSinceMs === null ? 0 : performance.now() - currentSinceMs;
  const lagMs = health.writable ? writingMs : health.sinceMs;
  return [
    exposeSummary(METRICS.ledgerWrites, { count, sum: totalMs / 1000 }),
    exposeSamples(METRICS.ledgerRows, [[[], rows]]),
    exposeSamples(METRICS.ledgerFailures, [[[], failures]]),
    exposeSamples(METRICS.ledgerLag, [[[], lagMs / 1000]]),
    exposeSamples(METRICS.ledgerWritable, [[[], Number(health.writable)]]),
    exposeSamples(METRICS.limitsReachable, [[[], Number(limiter.reachable)]]),
  ].join('');
}

function alertSamples({ firing, sent }: Pick<Alerts, 'firing' | 'sent'>): string {
  const attempts = [...sent].flatMap(([channel, counts]): Sample[] => [
    [[channel, 'sent'], counts.sent],
    [[channel, 'failed'], counts.failed],
  ]);
  return exposeSamples(METRICS.alertsFiring, [[[], firing]]) + exposeSamples(METRICS.alertMessages, attempts);
}

function memory(): string {
  const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
  return exposeSamples(METRICS.memory, [
    [['resident'], rss],
    [['heap_used'], heapUsed],
    [['heap_total'], heapTotal],
    [['external'], external],
  ]);
}
