import { COLORS, groupColor, OTHER_COLOR } from '../../charts/colors.ts';
import type { Series } from '../../charts/series.ts';
import type { Unit } from '../../charts/value-axis.ts';
import { rest, speedAt, ttftAt, valuesOf, type Measure, type OverTime } from './buckets.ts';
import type { UsageSeries } from './use-usage.ts';

/** The data of a chart. */
interface ChartData {
  over: OverTime;
  /** The previous period; null: no comparison. */
  before: OverTime | null;
  /** Null: not grouped. */
  parts: readonly UsageSeries[] | null;
  /** The models with the most usage. */
  models: readonly UsageSeries[];
}

/** One chart of the page. */
export interface ChartDefinition {
  name: string;
  title: string;
  hint: string;
  /** Hint for grouped charts, if it differs. */
  hintOfParts?: string;
  unit: Unit;
  /** Not grouped by client, because clients have no effect on it and the service does not keep it by client. */
  notByClient?: boolean;
  /** Always grouped by model, because throughput percentiles over several models are meaningless. */
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
    seriesOf: tokens,
  },
  {
    name: 'requests',
    title: 'Requests',
    hint: 'By start time. Running requests are not included.',
    unit: 'count',
    seriesOf: stacked('requests', [
      ['Completed', 'completed'],
      ['Errors', 'errors'],
      ['Client disconnected', 'disconnected'],
      ['Interrupted', 'interrupted'],
    ]),
  },
  {
    name: 'cost',
    title: 'Cost',
    hint: 'In USD, at the prices when each request started',
    unit: 'usd',
    seriesOf: stacked('cost', [['Cost', 'cost']]),
  },
  {
    name: 'ttft',
    title: 'Time to first token',
    hint: 'From the request to the first token (TTFT)',
    hintOfParts: 'From the request to the first token (TTFT), p50',
    notByClient: true,
    unit: 'ms',
    seriesOf: ttft,
  },
  {
    name: 'speed',
    title: 'Throughput',
    hint: 'Tokens per second after the first token, by model. Thick line: p50. Thin line: p5 (5% of requests are slower).',
    byModel: true,
    unit: 'speed',
    seriesOf: speed,
  },
];

/** Returns stacked bars. Completions are split only if some have reasoning. */
function tokens(data: ChartData): Series[] {
  const hasReasoning = data.over.some((sums) => sums !== null && sums.reasoning_tokens > 0);
  return stacked('tokens', [
    ['Prompt (uncached)', 'uncached'],
    ['Prompt (cached)', 'cached'],
    ...(hasReasoning
      ? ([
          ['Completion (answer)', 'answer'],
          ['Completion (reasoning)', 'reasoning'],
        ] as const)
      : ([['Completion', 'completion']] as const)),
  ])(data);
}

/** Returns stacked bars: one per group, or one per component of the measure. */
function stacked(measure: Measure, madeOf: readonly (readonly [string, Measure & keyof typeof COLORS])[]) {
  return ({ over, before, parts }: ChartData): Series[] => {
    const bars = parts
      ? barsOfParts(over, parts, measure)
      : madeOf.map(([label, part]): Series => ({
          label,
          values: valuesOf(over, part),
          shape: 'bar',
          color: COLORS[part],
        }));
    return before === null ? bars : [...bars, faint('Previous period', valuesOf(before, measure))];
  };
}

function barsOfParts(over: OverTime, parts: readonly UsageSeries[], measure: Measure): Series[] {
  const all = parts.map(({ over }) => valuesOf(over, measure));
  const bars = parts.map(({ label }, index): Series => ({
    label,
    values: all[index] ?? [],
    shape: 'bar',
    color: groupColor(index),
  }));
  const others = rest(valuesOf(over, measure), all);
  // The rounding remainder is not assigned to any series.
  const isNothing = others.every((value) => value < 1e-9);
  return isNothing ? bars : [...bars, { label: 'Other', values: others, shape: 'bar', color: OTHER_COLOR }];
}

/** Returns lines for p50 and p95; only p50 per group, to limit their number. */
function ttft({ over, before, parts }: ChartData): Series[] {
  const series: Series[] = parts
    ? parts.map(({ label, over }, index) => ({
        label,
        values: ttftAt(over, 'p50'),
        shape: 'line',
        color: groupColor(index),
      }))
    : [
        { label: 'p50', values: ttftAt(over, 'p50'), shape: 'line', color: COLORS.ttft },
        { label: 'p95', values: ttftAt(over, 'p95'), shape: 'line', color: COLORS.ttft, tail: true },
      ];
  return before === null ? series : [...series, faint('p50, previous period', ttftAt(before, 'p50'))];
}

/** Returns lines for p50 and p5, the slow end, of each model. */
function speed({ models }: ChartData): Series[] {
  return models.flatMap(({ label, over }, index): Series[] => [
    { label, values: speedAt(over, 'p50'), shape: 'line', color: groupColor(index) },
    {
      label: `${label}, p5`,
      values: speedAt(over, 'p5'),
      shape: 'line',
      color: groupColor(index),
      tail: true,
    },
  ]);
}

const faint = (label: string, values: readonly (number | null)[]): Series => ({
  label,
  values,
  shape: 'line',
  color: OTHER_COLOR,
  faint: true,
});
