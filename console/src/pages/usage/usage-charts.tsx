import { useLocation } from 'wouter';
import type { QueryState } from '../../api/queries.ts';
import type { Series } from '../../charts/series.ts';
import { useHour } from '../../components/date-range-days.ts';
import { useHrefWithAccount } from '../../state/account.ts';
import { indexNow, isFree, type OverTime } from './buckets.ts';
import { ChartCard } from './chart-card.tsx';
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
