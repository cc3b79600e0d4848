import type { Series } from '../../charts/series.ts';
import { money } from '../../format/money.ts';
import { compact, oneDigit, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { percentileAt, rest, valuesOf, type Measure, type OverTime } from './buckets.ts';
import type { Part } from './use-usage.ts';

/** What a drawing is made from. */
interface Drawn {
  over: OverTime;
  /** The days before, as many; null: they are not compared. */
  before: OverTime | null;
  /** Null: nothing is taken apart. */
  parts: readonly Part[] | null;
}

/** One chart of the page. */
export interface Drawing {
  name: string;
  title: string;
  hint: string;
  /** Of what is taken apart, where it shows less then. */
  hintOfParts?: string;
  /** At the axis, and where it is read. */
  format: (value: number) => string;
  formatExact: (value: number) => string;
  counts: boolean;
  seriesOf: (drawn: Drawn) => Series[];
}

/** Amounts that are charted are inexact already, so they are written as far as they are right. */
const dollars = (value: number): string => money(value.toFixed(12));
const roundDollars = (value: number): string =>
  `$${value >= 1000 ? compact(value) : Number(value.toPrecision(3))}`;
const perSecond = (value: number): string => `${oneDigit(value)} tokens/s`;

/** All charts, in their order. */
export const DRAWINGS: readonly Drawing[] = [
  {
    name: 'tokens',
    title: 'Tokens',
    hint: 'Of prompts and completions.',
    format: compact,
    formatExact: whole,
    counts: true,
    seriesOf: stacked('tokens', [
      ['Prompt, not cached', 'uncached', 1],
      ['Prompt, cached', 'cached', 6],
      ['Completion', 'completion', 2],
    ]),
  },
  {
    name: 'requests',
    title: 'Requests',
    hint: 'By when they came; those that run are not among them.',
    format: compact,
    formatExact: whole,
    counts: true,
    seriesOf: stacked('requests', [
      ['Completed', 'completed', 4],
      ['Errors', 'errors', 5],
      ['Hung up', 'hungUp', 2],
      ['Interrupted', 'interrupted', 6],
    ]),
  },
  {
    name: 'cost',
    title: 'Cost',
    hint: 'In USD, at the prices of when each request came.',
    format: roundDollars,
    formatExact: dollars,
    counts: false,
    seriesOf: stacked('cost', [['Cost', 'cost', 1]]),
  },
  {
    name: 'ttft',
    title: 'Time to first token',
    hint: 'From the request to the first token of its answer.',
    hintOfParts: 'From the request to the first token: half took at most this (p50).',
    format: duration,
    formatExact: duration,
    counts: false,
    seriesOf: lines('ttft_ms'),
  },
  {
    name: 'speed',
    title: 'Speed',
    hint: 'Tokens a second after the first one.',
    hintOfParts: 'Tokens a second after the first one: half had at most this (p50).',
    format: compact,
    formatExact: perSecond,
    counts: false,
    seriesOf: lines('tokens_per_second'),
  },
];

/** Bars that stand on each other: of each part, or as the measure is made up. */
function stacked(measure: Measure, madeOf: readonly (readonly [string, Measure, number])[]) {
  return ({ over, before, parts }: Drawn): Series[] => {
    const bars = parts
      ? barsOfParts(over, parts, measure)
      : madeOf.map(([label, part, colour]): Series => ({
          label,
          values: valuesOf(over, part),
          shape: 'bar',
          colour,
        }));
    return before === null ? bars : [...bars, faint('Before', valuesOf(before, measure))];
  };
}

function barsOfParts(over: OverTime, parts: readonly Part[], measure: Measure): Series[] {
  const all = parts.map(({ over }) => valuesOf(over, measure));
  const bars = parts.map(({ label }, index): Series => ({
    label,
    values: all[index] ?? [],
    shape: 'bar',
    colour: index + 1,
  }));
  const others = rest(valuesOf(over, measure), all);
  // What is left of inexact sums by rounding is nobody's.
  const isNothing = others.every((value) => value < 1e-9);
  return isNothing ? bars : [...bars, { label: 'Others', values: others, shape: 'bar', colour: 6 }];
}

/** Lines of what half and 95% of the requests had; of parts only the half, or there would be too many. */
function lines(what: 'ttft_ms' | 'tokens_per_second') {
  return ({ over, before, parts }: Drawn): Series[] => {
    const drawn: Series[] = parts
      ? parts.map(({ label, over }, index) => ({
          label,
          values: percentileAt(over, what, 'p50'),
          shape: 'line',
          colour: index + 1,
        }))
      : [
          { label: 'p50', values: percentileAt(over, what, 'p50'), shape: 'line', colour: 1 },
          { label: 'p95', values: percentileAt(over, what, 'p95'), shape: 'line', colour: 2 },
        ];
    return before === null ? drawn : [...drawn, faint('p50 before', percentileAt(before, what, 'p50'))];
  };
}

const faint = (label: string, values: readonly (number | null)[]): Series => ({
  label,
  values,
  shape: 'line',
  colour: 6,
  faint: true,
});
