import type { ReplicaHealth } from '../engine/engine.ts';

/** Details of a replica for operators. Fields are null if they are not reported or if the replica is not ready. */
export interface ReplicaReport {
  health: ReplicaHealth | null;
  /** Generation speed in the last seconds. */
  tokensPerSecond: number | null;
  /** Restarts of an embedded engine's process; null for a remote replica, or if the process was never started. */
  restarts: number | null;
  /** The latest unexpected exit of an embedded engine's process, in Unix milliseconds; null: none. */
  lastCrash: { at: number; reason: string } | null;
  /** When an embedded engine became ready, in Unix milliseconds. */
  startedAt: number | null;
  /** The hardware that an embedded engine uses. */
  backend: string | null;
  /** The last lines that an embedded engine's process wrote, without those of Sluice's own log. */
  output: readonly string[];
}

export const EMPTY_REPORT: ReplicaReport = {
  health: null,
  tokensPerSecond: null,
  restarts: null,
  lastCrash: null,
  startedAt: null,
  backend: null,
  output: [],
};

/** Approximate period over which speed is measured, in milliseconds. */
const WINDOW_MS = 5000;

interface Sample {
  /** Milliseconds on the monotonic clock. */
  atMs: number;
  health: ReplicaHealth;
}

/** The health of a replica in the last seconds. */
export class HealthHistory {
  #samples: Sample[] = [];

  get last(): ReplicaHealth | null {
    return this.#samples.at(-1)?.health ?? null;
  }

  add(health: ReplicaHealth, atMs = performance.now()): void {
    // The window starts at the newest sample that is old enough.
    const start = this.#samples.findLastIndex((sample) => atMs - sample.atMs >= WINDOW_MS);
    this.#samples = [...this.#samples.slice(Math.max(0, start)), { atMs, health }];
  }

  /** Removes all samples. Called when the replica is down. */
  clear(): void {
    this.#samples = [];
  }

  /** Null if there are fewer than two samples, or if the replica does not report token counts. */
  get tokensPerSecond(): number | null {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined || first === last) return null;
    const { completionTokens: from } = first.health;
    const { completionTokens: to } = last.health;
    if (from === null || to === null) return null;
    return (Math.max(0, to - from) * 1000) / (last.atMs - first.atMs);
  }
}

/** The load that a server reports in Prometheus' text format. */
export type Gauges = Pick<
  ReplicaHealth,
  'slotsInUse' | 'queued' | 'cacheUsage' | 'promptTokens' | 'completionTokens'
>;

/** The names of a server's metrics with its load, in order of preference. */
export type GaugeNames = Readonly<Record<keyof Gauges, readonly string[]>>;

/** Larger values are not plausible, and sums of them would not be exact. */
const MAX_VALUE = 1e15;

/** A line with a name, labels and a value, before which white space can be missing after the labels. */
const SERIES = /^([\w:]+)(?:\{.*\}[ \t]*|[ \t]+)(\S+)/gm;

/**
 * Reads the gauges from Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats). Adds
 * up the series of a metric, such as those of several engines, but returns the highest cache usage. Null: missing, or
 * not a plausible number.
 */
export function readGauges(metrics: string, names: GaugeNames): Gauges {
  const wanted = new Set(Object.values(names).flat());
  const values = new Map<string, number[]>();
  for (const [, name = '', text] of metrics.matchAll(SERIES)) {
    const value = Number(text);
    if (!wanted.has(name) || !(value >= 0 && value <= MAX_VALUE)) continue;
    const series = values.get(name);
    if (series) series.push(value);
    else values.set(name, [value]);
  }
  const series = (gauge: keyof Gauges) =>
    names[gauge].map((name) => values.get(name)).find((found) => found !== undefined);
  const sum = (gauge: keyof Gauges) => {
    const total = series(gauge)?.reduce((all, value) => all + value, 0) ?? Infinity;
    return total > MAX_VALUE ? null : Math.round(total);
  };
  const usage = series('cacheUsage')?.reduce((highest, value) => Math.max(highest, value));
  return {
    slotsInUse: sum('slotsInUse'),
    queued: sum('queued'),
    cacheUsage: usage === undefined ? null : Math.min(1, usage),
    promptTokens: sum('promptTokens'),
    completionTokens: sum('completionTokens'),
  };
}
