import { lazy, Suspense } from 'react';
import { both, useRead } from '../../api/queries.ts';
import { COLORS } from '../../charts/colors.ts';
import { useHour } from '../../components/date-range-days.ts';
import { LoadFailure, Skeletons } from '../../components/states.tsx';
import { utcSpan, utcTick } from '../../format/time.ts';
import { barsOf, daysOfPeriod, periodOf, statusCounts } from '../../requests/bars.ts';
import { canBeRefused, isCounted, type Filters } from '../../requests/filters.ts';
import type { Scope } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';

const Chart = lazy(() => import('../../charts/chart.tsx'));

/** Refetch interval of a live page, in milliseconds. */
const LIVE_MS = 15_000;
const HEIGHT = 120;

/** Loads how many requests completed, failed and were refused, by hour or day, and what the filters count. */
export function useBars(scope: Scope, filters: Filters, live: boolean) {
  const { key, model, client } = filters;
  const hour = useHour();
  const period = periodOf(filters, hour);
  const counted = {
    ...daysOfPeriod(period),
    ...(key !== null && { key_id: key }),
    ...(model !== null && { model }),
    ...(client !== null && { client }),
  };
  const options = live ? { everyMs: LIVE_MS } : {};
  const usage = useRead('readUsage', { query: { ...scope.query, ...counted, by: period.unit } }, options);
  const [from, to] = [period.fromMs, period.toMs].map((ms) => new Date(ms).toISOString());
  const ofKey = { ...scope.query, key_id: counted.key_id };
  const refusals = useRead('countRefusals', { query: { ...ofKey, from, to } }, options);
  const query = both(usage, refusals);
  const refused = canBeRefused({ ...filters, status: null }) ? refusals.data?.data : [];
  const bars = query.data && barsOf(period, query.data[0].data, refused ?? []);
  const isKnown = isCounted(filters);
  return {
    query,
    /** Undefined: not loaded yet. */
    bars,
    unit: period.unit,
    /** Index of the hour or day that has not ended yet. */
    partial: bars && period.toMs > Date.parse(hour) ? bars.length - 1 : undefined,
    /** The requests of each status; undefined: unknown. */
    statuses: isKnown ? bars && statusCounts(bars) : undefined,
    /** The usage report whose requests are counted beside models and keys; undefined: unknown. */
    counted: isKnown ? counted : undefined,
  };
}

export type Bars = ReturnType<typeof useBars>;

const SERIES = [
  { name: 'completed', label: 'Completed', color: COLORS.completed },
  { name: 'failed', label: 'Failed', color: COLORS.errors },
  { name: 'refused', label: 'Refused', color: COLORS.refused },
] as const;

/** What the page says about its numbers. */
export const barsNote = ({ unit, counted }: Bars): string =>
  [
    'Drag over bars to select a time (UTC).',
    ...(counted && unit === 'hour' ? ['Numbers beside models and keys are of whole days.'] : []),
    ...(counted ? [] : ['Bars also count requests that other filters leave out.']),
  ].join(' ');

/** The requests over time. A drag or a click shows the requests of these hours or days. */
export function Histogram({ bars: { query, bars, unit, partial } }: { bars: Bars }) {
  const [, change] = useQueryState();
  if (bars?.length === 0) return null;
  const moment = (time: string | undefined) => (unit === 'day' ? time?.slice(0, 10) : time) ?? null;
  const zoom = (first: number, last: number) =>
    change({ range: null, from: moment(bars?.[first]?.from), to: moment(bars?.[last]?.to) });
  const loading = <Skeletons heights={['h-37']} />;
  return (
    <div className="border-b border-line px-4 py-2 sm:px-5">
      <LoadFailure query={query} what="the chart" />
      {bars === undefined ? (
        query.error === null && loading
      ) : (
        <Suspense fallback={loading}>
          <Chart
            label={`Completed, failed and refused by ${unit}`}
            times={bars.map(({ from }) => Date.parse(from) / 1000)}
            series={SERIES.map(({ name, ...series }) => ({
              ...series,
              shape: 'bar',
              values: bars.map((bar) => bar[name]),
            }))}
            unit="count"
            partial={partial}
            formatTime={utcSpan(unit)}
            formatTick={utcTick(unit)}
            height={HEIGHT}
            onOpen={(index) => zoom(index, index)}
            onDrag={zoom}
          />
        </Suspense>
      )}
    </div>
  );
}
