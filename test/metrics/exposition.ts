import assert from 'node:assert/strict';

export interface ExposedSample {
  name: string;
  labels: Readonly<Record<string, string>>;
  value: number;
}

/** A metric in Prometheus' text format. */
export interface ExposedMetric {
  type: string;
  help: string;
  samples: ExposedSample[];
}

const LABEL = /([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/y;

/** Parses Prometheus' text format strictly: every sample follows the heading of its metric, and no line repeats. */
export function parseExposition(text: string): Map<string, ExposedMetric> {
  assert.ok(text.endsWith('\n'));
  const metrics = new Map<string, ExposedMetric>();
  const seen = new Set<string>();
  let current = '';
  for (const line of text.slice(0, -1).split('\n')) {
    const help = /^# HELP ([a-z_]+) (.+)$/.exec(line);
    const type = /^# TYPE ([a-z_]+) ([a-z]+)$/.exec(line);
    if (help) {
      current = help[1] ?? '';
      assert.ok(!metrics.has(current), `${current} occurs twice`);
      metrics.set(current, { type: '', help: help[2] ?? '', samples: [] });
    } else if (type) {
      assert.equal(type[1], current);
      metricOf(metrics, current).type = type[2] ?? '';
    } else {
      const [, name = '', inBraces = '', value = ''] =
        /^([a-z_]+)(?:\{(.+)\})? (-?[\d.]+(?:e[+-]?\d+)?)$/.exec(line) ?? assert.fail(line);
      const series = `${name}{${inBraces}}`;
      assert.ok(!seen.has(series), `${series} occurs twice`);
      seen.add(series);
      assert.match(name, new RegExp(`^${current}(_bucket|_sum|_count)?$`));
      metricOf(metrics, current).samples.push({ name, labels: parseLabels(inBraces), value: Number(value) });
    }
  }
  return metrics;
}

function metricOf(metrics: ReadonlyMap<string, ExposedMetric>, name: string): ExposedMetric {
  return metrics.get(name) ?? assert.fail(`${name} has no heading`);
}

function parseLabels(text: string): Record<string, string> {
  const labels: Record<string, string> = {};
  LABEL.lastIndex = 0;
  while (LABEL.lastIndex < text.length) {
    const [, name = '', value = ''] = LABEL.exec(text) ?? assert.fail(text);
    labels[name] = value.replaceAll(/\\(.)/g, (_, letter: string) => (letter === 'n' ? '\n' : letter));
  }
  return labels;
}

/** Returns the sum of the samples of a name that have these labels. */
export function total(
  metrics: ReadonlyMap<string, ExposedMetric>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const samples = [...metrics.values()].flatMap((metric) => metric.samples);
  const wanted = Object.entries(labels);
  return samples
    .filter((sample) => sample.name === name && wanted.every(([key, value]) => sample.labels[key] === value))
    .reduce((sum, { value }) => sum + value, 0);
}
