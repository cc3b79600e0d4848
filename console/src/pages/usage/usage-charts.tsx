import { ChartColumn, Table2 } from 'lucide-react';
import { lazy, Suspense, useState } from 'react';
import { useLocation } from 'wouter';
import type { QueryState } from '../../api/queries.ts';
import { ChartTable } from '../../charts/chart-table.tsx';
import type { Series } from '../../charts/series.ts';
import { IconButton } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { useHour } from '../../components/date-range-days.ts';
import { Loaded } from '../../components/loaded.tsx';
import { Skeletons } from '../../components/states.tsx';
import { utcSpan, utcTick } from '../../format/time.ts';
import { useHrefWithAccount } from '../../state/account.ts';
import { indexNow, isFree, type OverTime } from './buckets.ts';
import { CHARTS, type ChartDefinition } from './chart-definitions.ts';
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
      error: queries.find(({ error }) => error !== null)?.error ?? null,
      refetch: () => queries.forEach((query) => void query.refetch()),
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
  /** Whether usage is grouped. */
  ofParts: boolean;
  series: QueryState<readonly Series[]>;
  /** Returns the path of the page that lists the requests of an hour or day. */
  linkOf: (index: number) => string;
  onOpen: (index: number) => void;
  className?: string;
}

const HEIGHT = 220;

/** A chart that can also be shown as a table. Each hour or day links to its requests. */
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
