import { ChartColumn, Table2 } from 'lucide-react';
import { lazy, Suspense, useState } from 'react';
import { useLocation } from 'wouter';
import { together, type QueryState } from '../../api/queries.ts';
import { ChartTable } from '../../charts/chart-table.tsx';
import { COLORS, groupColor, OTHER_COLOR } from '../../charts/colors.ts';
import type { Series } from '../../charts/series.ts';
import type { Unit } from '../../charts/value-axis.ts';
import { IconButton } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { useHour } from '../../components/date-range-days.ts';
import { Loaded, Skeletons } from '../../components/states.tsx';
import { utcSpan, utcTick } from '../../format/time.ts';
import { useHrefWithAccount } from '../../state/account.ts';
import { indexNow, isFree, rest, speedAt, ttftAt, valuesOf, type Measure, type OverTime } from './buckets.ts';
import type { Selection } from './selection.ts';
import type { UsageSeries } from './use-usage.ts';

interface UsageChartsProps {
  selection: Selection;
  times: readonly number[];
  over: QueryState<OverTime>;
  before: QueryState<OverTime>;
  /** Used if usage is grouped. */
  parts: QueryState<readonly UsageSeries[]>;
  models: QueryState<readonly UsageSeries[]>;
  /** Returns the path of the request log for a point in time. */
  linkOf: (index: number) => string;
}

/** The usage charts. Hides the cost chart if nothing was charged. */
export function UsageCharts({ selection, times, over, before, parts, models, linkOf }: UsageChartsProps) {
  const { unit, split, compare } = selection;
  const partial = indexNow(times, unit, useHour());
  const charts = CHARTS.filter(
    ({ name }) => name !== 'cost' || !isFree(over.data) || (compare && !isFree(before.data)),
  );
  const [, navigate] = useLocation();
  const href = useHrefWithAccount();
  const isGrouped = ({ notByClient }: ChartDefinition) =>
    split !== 'none' && !(split === 'client' && notByClient === true);
  const seriesOf = (definition: ChartDefinition): QueryState<Series[]> => {
    const groups = definition.byModel ? models : isGrouped(definition) ? parts : null;
    const queries = [over, ...(groups === null ? [] : [groups]), ...(compare ? [before] : [])];
    return {
      data:
        over.data === undefined || queries.some(({ data }) => data === undefined)
          ? undefined
          : definition.seriesOf({
              over: over.data,
              before: compare ? (before.data ?? null) : null,
              parts: isGrouped(definition) ? (parts.data ?? null) : null,
              models: models.data ?? [],
            }),
      ...together(queries),
    };
  };
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      {charts.map((definition, index) => (
        <ChartCard
          key={definition.name}
          {...{ definition, times, unit, partial, linkOf }}
          ofParts={isGrouped(definition)}
          series={seriesOf(definition)}
          onOpen={(at) => navigate(href(linkOf(at)))}
          className={isWide(index, charts.length) ? 'lg:col-span-2' : ''}
        />
      ))}
    </div>
  );
}

/** The first chart has the full width. So does the last one if it would be alone in its row. */
const isWide = (index: number, count: number): boolean =>
  index === 0 || (index === count - 1 && count % 2 === 0);

// The chart library is a third of the page's script, so it loads in parallel with the data.
const Chart = lazy(() => import('../../charts/chart.tsx'));

interface ChartCardProps {
  definition: ChartDefinition;
  times: readonly number[];
  unit: 'hour' | 'day';
  /** Index of the hour or day that has not ended yet. */
  partial: number | undefined;
  ofParts: boolean;
  series: QueryState<readonly Series[]>;
  linkOf: (index: number) => string;
  onOpen: (index: number) => void;
  className?: string;
}

const HEIGHT = 220;

function ChartCard({
  definition,
  times,
  unit,
  partial,
  ofParts,
  series,
  linkOf,
  onOpen,
  className,
}: ChartCardProps) {
  const [asTable, setAsTable] = useState(false);
  const { title, hint, hintOfParts } = definition;
  const label = `${title} by ${unit}`;
  const data = { label, times, partial, unit: definition.unit, formatTime: utcSpan(unit) };
  return (
    <Card
      title={title}
      hint={(ofParts ? hintOfParts : undefined) ?? hint}
      className={className ?? ''}
      actions={
        <IconButton
          label={asTable ? `Show ${title} as chart` : `Show ${title} as table`}
          onClick={() => setAsTable(!asTable)}
        >
          {asTable ? <ChartColumn /> : <Table2 />}
        </IconButton>
      }
    >
      <Loaded query={series} loading={<Skeletons heights={['h-62']} />}>
        {(loaded) =>
          asTable ? (
            <div
              role="region"
              aria-label={label}
              tabIndex={0}
              className="overflow-auto"
              style={{ height: HEIGHT + 28 }}
            >
              <ChartTable {...data} series={loaded} linkOf={linkOf} />
            </div>
          ) : (
            <Suspense fallback={<Skeletons heights={['h-62']} />}>
              <Chart {...data} series={loaded} onOpen={onOpen} formatTick={utcTick(unit)} height={HEIGHT} />
            </Suspense>
          )
        }
      </Loaded>
    </Card>
  );
}

interface ChartData {
  over: OverTime;
  /** The previous period; null: no comparison. */
  before: OverTime | null;
  /** Null: not grouped. */
  parts: readonly UsageSeries[] | null;
  models: readonly UsageSeries[];
}

interface ChartDefinition {
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

const CHARTS: readonly ChartDefinition[] = [
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
