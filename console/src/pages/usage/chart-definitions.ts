import type { Series } from '../../charts/series.ts';
import { money } from '../../format/money.ts';
import { compact, oneDigit, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { percentileAt, rest, valuesOf, type Measure, type OverTime } from './buckets.ts';
import type { Part } from './use-usage.ts';

/** The data of a chart. */
interface ChartData {
  over: OverTime;
  /** The previous period; null: no comparison. */
  before: OverTime | null;
  /** Null: not grouped. */
  parts: readonly Part[] | null;
}

/** One chart of the page. */
export interface ChartDefinition {
  name: string;
  title: string;
  hint: string;
  /** Hint for grouped charts, if it differs. */
  hintOfParts?: string;
  /** `format` is for the axis, `formatExact` for the tooltip and table. */
  format: (value: number) => string;
  formatExact: (value: number) => string;
  counts: boolean;
  seriesOf: (data: ChartData) => Series[];
}

/** Charted amounts are floats, so only their exact digits are shown. */
const dollars = (value: number): string => money(value.toFixed(12));
const roundDollars = (value: number): string =>
  `$${value >= 1000 ? compact(value) : Number(value.toPrecision(3))}`;
const perSecond = (value: number): string => `${oneDigit(value)} tokens/s`;

/** All charts, in order. */
export const CHARTS: readonly ChartDefinition[] = [
  {
    name: 'tokens',
    title: 'Tokens',
    hint: 'Prompt and completion tokens',
    format: compact,
    formatExact: whole,
    counts: true,
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
    format: compact,
    formatExact: whole,
    counts: true,
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
    format: roundDollars,
    formatExact: dollars,
    counts: false,
    seriesOf: stacked('cost', [['Cost', 'cost', 1]]),
  },
  {
    name: 'ttft',
    title: 'Time to first token',
    hint: 'From the request to the first token (TTFT)',
    hintOfParts: 'From the request to the first token (TTFT), p50',
    format: duration,
    formatExact: duration,
    counts: false,
    seriesOf: lines('ttft_ms'),
  },
  {
    name: 'speed',
    title: 'Throughput',
    hint: 'Tokens per second after the first token of a request',
    hintOfParts: 'Tokens per second after the first token of a request, p50',
    format: compact,
    formatExact: perSecond,
    counts: false,
    seriesOf: lines('tokens_per_second'),
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
function lines(what: 'ttft_ms' | 'tokens_per_second') {
  return ({ over, before, parts }: ChartData): Series[] => {
    const series: Series[] = parts
      ? parts.map(({ label, over }, index) => ({
          label,
          values: percentileAt(over, what, 'p50'),
          shape: 'line',
          color: index + 1,
        }))
      : [
          { label: 'p50', values: percentileAt(over, what, 'p50'), shape: 'line', color: 1 },
          { label: 'p95', values: percentileAt(over, what, 'p95'), shape: 'line', color: 2 },
        ];
    return before === null
      ? series
      : [...series, faint('p50, previous period', percentileAt(before, what, 'p50'))];
  };
}

const faint = (label: string, values: readonly (number | null)[]): Series => ({
  label,
  values,
  shape: 'line',
  color: 6,
  faint: true,
});
