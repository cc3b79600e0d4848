import type { EngineHealth } from './engine.ts';

/** The load that a server reports in Prometheus' text format. */
export type Gauges = Pick<
  EngineHealth,
  'slotsInUse' | 'queued' | 'cacheUsage' | 'promptTokens' | 'completionTokens'
>;

/** Where a server reports its load: the names of its metrics, in order of preference. */
export interface GaugeSource {
  path: string;
  names: Readonly<Record<keyof Gauges, readonly string[]>>;
}

/** Larger values are not plausible, and sums of them would not be exact. */
const MAX_VALUE = 1e15;

/**
 * Reads the gauges from Prometheus' text format (https://prometheus.io/docs/instrumenting/exposition_formats). Adds
 * up the series of a metric, such as those of several engines, but returns the highest cache usage. Null: missing, or
 * not a plausible number.
 */
export function readGauges(metrics: string, { names }: GaugeSource): Gauges {
  const wanted = new Set(Object.values(names).flat());
  const values = new Map<string, number[]>();
  for (let start = 0; start < metrics.length;) {
    const newline = metrics.indexOf('\n', start);
    const end = newline === -1 ? metrics.length : newline;
    const line = metrics.slice(start, end);
    start = end + 1;
    const name = /^[\w:]+/.exec(line)?.[0];
    if (name === undefined || !wanted.has(name)) continue;
    const [text = ''] = line
      .slice(Math.max(name.length, line.lastIndexOf('}') + 1))
      .trim()
      .split(/\s+/);
    const value = text === '' ? NaN : Number(text);
    if (!(value >= 0 && value <= MAX_VALUE)) continue;
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
