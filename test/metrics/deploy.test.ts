import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { METRICS, type Metric } from '../../src/metrics/table.ts';
import { ROOT } from '../docs/markdown.ts';

interface Dashboard {
  panels: {
    id: number;
    title: string;
    gridPos: { x: number; y: number; w: number; h: number };
    targets?: { expr: string; legendFormat: string }[];
  }[];
  templating: { list: { name: string; query: string | { query: string } }[] };
}

interface Rules {
  groups: {
    rules: {
      alert: string;
      expr: string;
      labels: Record<string, string>;
      annotations: Record<string, string>;
    }[];
  }[];
}

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
// The files of the repository have these shapes; a wrong one fails the tests.
const dashboard = JSON.parse(read('deploy/grafana/sluice.json')) as Dashboard;
const rules = (parse(read('deploy/prometheus/alerts.yaml')) as Rules).groups.flatMap((group) => group.rules);

const metrics: readonly Metric[] = Object.values(METRICS);
const targets = dashboard.panels.flatMap((panel) => panel.targets ?? []);
const queries = dashboard.templating.list.map(({ query }) =>
  typeof query === 'string' ? query : query.query,
);

/** Labels that Prometheus adds. */
const ADDED = ['instance', 'job'];

/** Returns the labels of each series in a query. Fails if a series is not in the table. */
function seriesIn(query: string): { metric: Metric; labels: string[] }[] {
  return [...query.matchAll(/\bsluice_[a-z_]+/g)].map(([name]) => {
    const suffix = /_(bucket|sum|count)$/.exec(name)?.[0] ?? '';
    const metric = metrics.find((known) => {
      const hasParts = known.type === 'histogram' || known.type === 'summary';
      return known.name + (hasParts ? suffix : '') === name && hasParts === (suffix !== '');
    });
    assert.ok(metric, `${name} does not exist`);
    return { metric, labels: [...metric.labels, ...(suffix === '_bucket' ? ['le'] : []), ...ADDED] };
  });
}

/** Checks the metrics, their labels and the brackets of a query. */
function assertQuery(query: string): void {
  const series = seriesIn(query);
  assert.ok(series.length > 0, query);
  const selected = [...query.matchAll(/\b(sluice_[a-z_]+)\{([^}]*)\}/g)];
  for (const [, name = '', selectors = ''] of selected) {
    const [found] = seriesIn(name);
    for (const [, label = ''] of selectors.matchAll(/(\w+)(?:=~|!~|!=|=)"/g)) {
      assert.ok(found?.labels.includes(label), `${name} has no label ${label}`);
    }
  }
  for (const [, list = ''] of query.matchAll(/\bby \(([^)]*)\)/g)) {
    for (const label of list.split(', ')) {
      assert.ok(
        series.some(({ labels }) => labels.includes(label)),
        `by (${label}): ${query}`,
      );
    }
  }
  for (const [open, close] of ['()', '[]', '{}']) {
    assert.equal(query.split(open ?? '').length, query.split(close ?? '').length, query);
  }
  // A quantile needs the bounds of the buckets.
  if (query.includes('histogram_quantile')) assert.match(query, /by \(le[,)]/);
  for (const [, name = ''] of query.matchAll(/\b(?:rate|increase)\((sluice_[a-z_]+)/g)) {
    assert.notEqual(seriesIn(name)[0]?.metric.type, 'gauge', `rate of ${name}`);
  }
}

test('queries with an unknown metric, an unknown label, or a quantile without buckets are detected', () => {
  for (const query of [
    'sum(rate(sluice_nothing_total[5m]))',
    'sluice_queue_wait_seconds',
    'sluice_ledger_rows_total_sum',
    'sluice_requests_running{replica="a"}',
    'sum by (code) (sluice_requests_running)',
    'rate(sluice_requests_running[5m])',
    'histogram_quantile(0.9, sum(rate(sluice_queue_wait_seconds_bucket[5m])))',
    'sum(sluice_requests_running',
    'up == 0',
  ]) {
    assert.throws(() => assertQuery(query), assert.AssertionError, query);
  }
});

test('the dashboard queries only existing metrics and labels, and shows every metric', () => {
  for (const { expr } of targets) assertQuery(expr);
  for (const query of queries.filter((text) => text !== 'prometheus')) {
    const [, name = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec(query) ?? assert.fail(query);
    assert.ok(seriesIn(name)[0]?.labels.includes(label), query);
  }
  const shown = new Set(targets.flatMap(({ expr }) => seriesIn(expr)).map(({ metric }) => metric.name));
  assert.deepEqual(
    metrics.filter(({ name }) => !shown.has(name)).map(({ name }) => name),
    [],
  );
});

test('legends use only labels that their query keeps, and all variables exist', () => {
  const variables = new Set([...dashboard.templating.list.map(({ name }) => name), '__rate_interval']);
  for (const { expr, legendFormat } of targets) {
    for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
      assert.match(expr, new RegExp(`by \\([^)]*\\b${label}\\b`), legendFormat);
    }
    for (const [, name = ''] of expr.matchAll(/\$(\w+)/g)) assert.ok(variables.has(name), name);
  }
});

test('the panels of the dashboard have unique IDs and do not overlap', () => {
  const { panels } = dashboard;
  assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`),
  );
  assert.equal(new Set(cells).size, cells.length);
});

test('alert rules use only existing metrics and labels, and have a severity and a summary', () => {
  assert.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length);
  for (const { alert, expr, labels, annotations } of rules) {
    assertQuery(expr);
    assert.match(alert, /^Sluice[A-Z]\w+$/);
    assert.match(labels['severity'] ?? '', /^(warning|critical)$/);
    assert.match(annotations['summary'] ?? '', /\.$/);
    // Aggregation keeps only the labels in `by`.
    const kept = /\bby \(([^)]*)\)/.exec(expr)?.[1]?.split(', ');
    const known = kept ?? seriesIn(expr).flatMap((series) => series.labels);
    for (const text of Object.values(annotations)) {
      for (const [, label = ''] of text.matchAll(/\$labels\.(\w+)/g))
        assert.ok(known.includes(label), `${alert}: ${label}`);
    }
  }
});
