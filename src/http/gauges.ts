import type { Accounting } from '../inference/request-accounting.ts';
import { exposeSamples, exposeSummary, type Sample } from '../metrics/series.ts';
import { METRICS } from '../metrics/table.ts';
import type { ReplicaState } from '../routing/replica.ts';
import type { Router } from '../routing/router.ts';
import type { ReplicaOverview } from '../routing/served-model.ts';

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
export function exposeGauges(router: Router, accounting: Accounting): string {
  return models(router) + replicas(router.reports()) + storage(accounting) + memory();
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
  /** A sample of each replica; `read` returns null if the replica does not report the value. */
  const each = (read: (report: ReplicaOverview) => number | null): Sample[] =>
    reports.flatMap((report) => {
      const value = read(report);
      return value === null ? [] : [[[report.model, report.name], value] as const];
    });
  const states = reports.flatMap(({ model, name, state }) =>
    STATES.map((known) => [[model, name, known], Number(state.state === known)] as const),
  );
  return [
    exposeSamples(METRICS.replicaState, states),
    exposeSamples(
      METRICS.breakerPauses,
      each(({ pauses }) => pauses),
    ),
    exposeSamples(
      METRICS.replicaRunning,
      each(({ inFlight }) => inFlight),
    ),
    exposeSamples(
      METRICS.slots,
      each(({ health }) => health?.slots ?? null),
    ),
    exposeSamples(
      METRICS.slotsInUse,
      each(({ health }) => health?.slotsInUse ?? null),
    ),
    exposeSamples(
      METRICS.replicaQueued,
      each(({ health }) => health?.queued ?? null),
    ),
    exposeSamples(
      METRICS.replicaMemory,
      each(({ health }) => health?.memoryBytes ?? null),
    ),
    exposeSamples(
      METRICS.engineRestarts,
      each(({ restarts }) => restarts),
    ),
  ].join('');
}

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

function memory(): string {
  const { rss, heapUsed, heapTotal, external } = process.memoryUsage();
  return exposeSamples(METRICS.memory, [
    [['resident'], rss],
    [['heap_used'], heapUsed],
    [['heap_total'], heapTotal],
    [['external'], external],
  ]);
}
