import { lazy, Suspense, useMemo } from 'react';
import { both, useRead } from '../../api/queries.ts';
import { COLORS } from '../../charts/colors.ts';
import type { Series } from '../../charts/series.ts';
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
  const { range, from, to, key, model, client } = filters;
  const hour = useHour();
  const period = useMemo(() => periodOf({ range, from, to }, hour), [range, from, to, hour]);
  const options = live ? { everyMs: LIVE_MS } : {};
  const counted = {
    ...daysOfPeriod(period),
    ...(key !== null && { key_id: key }),
    ...(model !== null && { model }),
    ...(client !== null && { client }),
  };
  const usage = useRead('readUsage', { query: { ...scope.query, ...counted, by: period.unit } }, options);
  const [start, end] = [period.fromMs, period.toMs].map((ms) => new Date(ms).toISOString());
  const refusals = useRead(
    'countRefusals',
    { query: { ...scope.query, key_id: counted.key_id, from: start, to: end } },
    options,
  );
  const isRefusable = canBeRefused({ ...filters, status: null });
  const bars = useMemo(
    () =>
      usage.data && refusals.data && barsOf(period, usage.data.data, isRefusable ? refusals.data.data : []),
    [period, usage.data, refusals.data, isRefusable],
  );
  const isKnown = isCounted(filters);
  return {
    query: both(usage, refusals),
    /** Undefined: not loaded yet. */
    bars,
    unit: period.unit,
    /** Index of the hour or day that has not ended yet. */
    partial: period.toMs > Date.parse(hour) && bars ? bars.length - 1 : undefined,
    /** The requests of each status; undefined: unknown. */
    statuses: isKnown && bars ? statusCounts(bars) : undefined,
    /** The usage report whose requests are counted beside models and keys; undefined: unknown. */
    counted: isKnown ? counted : undefined,
  };
}

export type Bars = ReturnType<typeof useBars>;

/** The requests over time. A drag or a click shows the requests of these hours or days. */
export function Histogram({
  bars: { query, bars, unit, partial },
  filters,
}: {
  bars: Bars;
  filters: Filters;
}) {
  const [, change] = useQueryState();
  const data = useMemo(() => {
    const series = (name: 'completed' | 'failed' | 'refused', label: string, color: number): Series => ({
      label,
      values: (bars ?? []).map((bar) => bar[name]),
      shape: 'bar',
      color,
    });
    return {
      times: (bars ?? []).map(({ from }) => Date.parse(from) / 1000),
      series: [
        series('completed', 'Completed', COLORS.completed),
        series('failed', 'Failed', COLORS.errors),
        series('refused', 'Refused', COLORS.refused),
      ],
    };
  }, [bars]);
  if (bars?.length === 0) return null;
  const moment = (time: string | undefined) => (unit === 'day' ? time?.slice(0, 10) : time) ?? null;
  const zoom = (first: number, last: number) =>
    change({ range: null, from: moment(bars?.[first]?.from), to: moment(bars?.[last]?.to) });
  const loading = <Skeletons heights={['h-37']} />;
  const notes = [
    'Drag to select a time. Times are in UTC.',
    unit === 'hour' ? 'Numbers beside models and keys are of whole days.' : '',
    isCounted(filters) ? '' : 'Not filtered by duration, first token, tokens, cost and note.',
  ];
  return (
    <div className="border-b border-line px-4 pt-2 pb-3 sm:px-5">
      <LoadFailure query={query} what="the chart" />
      {bars === undefined ? (
        query.error === null && loading
      ) : (
        <Suspense fallback={loading}>
          <Chart
            label={`Completed, failed and refused by ${unit}`}
            {...data}
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
      <p className="mt-1 text-xs text-ink-3">{notes.join(' ')}</p>
    </div>
  );
}
