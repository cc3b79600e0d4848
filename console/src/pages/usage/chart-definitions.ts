import type { Series } from '../../charts/series.ts';
import type { Unit } from '../../charts/value-axis.ts';
import { rest, speedAt, ttftAt, valuesOf, type Measure, type OverTime } from './buckets.ts';
import type { Part } from './use-usage.ts';

/** The data of a chart. */
interface ChartData {
  over: OverTime;
  /** The previous period; null: no comparison. */
  before: OverTime | null;
  /** Null: not grouped. */
  parts: readonly Part[] | null;
  /** The models with the most usage. */
  models: readonly Part[];
}

/** One chart of the page. */
export interface ChartDefinition {
  name: string;
  title: string;
  hint: string;
  /** Hint for grouped charts, if it differs. */
  hintOfParts?: string;
  unit: Unit;
  /** Always grouped by model, because a sum over models is meaningless. */
  byModel?: boolean;
  seriesOf: (data: ChartData) => Series[];
}

/** All charts, in order. */
export const CHARTS: readonly ChartDefinition[] = [
  {
    name: 'tokens',
    title: 'Tokens',
    hint: 'Prompt and completion tokens',
    unit: 'count',
    seriesOf: stacked('tokens', [
      ['Prompt (uncached)', 'uncached', 1],
      ['Prompt (cached)', 'cached', 6],
      ['Completion', 'completion', 2],
    ]),
  },
  {
    name: 'requests',
    title: 'Requests',
    hint: 'By start time. Running requests are not included.',
    unit: 'count',
    seriesOf: stacked('requests', [
      ['Completed', 'completed', 4],
      ['Errors', 'errors', 5],
      ['Client disconnected', 'disconnected', 2],
      ['Interrupted', 'interrupted', 6],
    ]),
  },
  {
    name: 'cost',
    title: 'Cost',
    hint: 'In USD, at the prices when each request started',
    unit: 'usd',
    seriesOf: stacked('cost', [['Cost', 'cost', 1]]),
  },
  {
    name: 'ttft',
    title: 'Time to first token',
    hint: 'From the request to the first token (TTFT)',
    hintOfParts: 'From the request to the first token (TTFT), p50',
    unit: 'ms',
    seriesOf: ttft,
  },
  {
    name: 'speed',
    title: 'Throughput',
    hint: 'Tokens per second after the first token of a request, by model. 5% of the requests are slower than p5.',
    byModel: true,
    unit: 'speed',
    seriesOf: speed,
  },
];

/** Returns stacked bars: one per group, or one per component of the measure. */
function stacked(measure: Measure, madeOf: readonly (readonly [string, Measure, number])[]) {
  return ({ over, before, parts }: ChartData): Series[] => {
    const bars = parts
      ? barsOfParts(over, parts, measure)
      : madeOf.map(([label, part, color]): Series => ({
          label,
          values: valuesOf(over, part),
          shape: 'bar',
          color,
        }));
    return before === null ? bars : [...bars, faint('Previous period', valuesOf(before, measure))];
  };
}

function barsOfParts(over: OverTime, parts: readonly Part[], measure: Measure): Series[] {
  const all = parts.map(({ over }) => valuesOf(over, measure));
  const bars = parts.map(({ label }, index): Series => ({
    label,
    values: all[index] ?? [],
    shape: 'bar',
    color: index + 1,
  }));
  const others = rest(valuesOf(over, measure), all);
  // The rounding remainder is not assigned to any series.
  const isNothing = others.every((value) => value < 1e-9);
  return isNothing ? bars : [...bars, { label: 'Other', values: others, shape: 'bar', color: 6 }];
}

/** Returns lines for p50 and p95; only p50 per group, to limit their number. */
function ttft({ over, before, parts }: ChartData): Series[] {
  const series: Series[] = parts
    ? parts.map(({ label, over }, index) => ({
        label,
        values: ttftAt(over, 'p50'),
        shape: 'line',
        color: index + 1,
      }))
    : [
        { label: 'p50', values: ttftAt(over, 'p50'), shape: 'line', color: 1 },
        { label: 'p95', values: ttftAt(over, 'p95'), shape: 'line', color: 1, tail: true },
      ];
  return before === null ? series : [...series, faint('p50, previous period', ttftAt(before, 'p50'))];
}

/** Returns lines for p50 and p5, the slow end, of each model. */
function speed({ models }: ChartData): Series[] {
  return models.flatMap(({ label, over }, index): Series[] => [
    { label: `${label}, p50`, values: speedAt(over, 'p50'), shape: 'line', color: index + 1 },
    { label: `${label}, p5`, values: speedAt(over, 'p5'), shape: 'line', color: index + 1, tail: true },
  ]);
}

const faint = (label: string, values: readonly (number | null)[]): Series => ({
  label,
  values,
  shape: 'line',
  color: 6,
  faint: true,
});
