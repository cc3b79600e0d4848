import { lazy, Suspense, useMemo } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { COLORS } from '../../charts/colors.ts';
import type { Series } from '../../charts/series.ts';
import { Card } from '../../components/card.tsx';
import { Skeleton } from '../../components/states.tsx';
import { clock } from '../../format/time.ts';
import { smooth } from './load-figures.ts';

const Chart = lazy(() => import('../../charts/chart.tsx'));

type Second = ResponseOf<'readLoad'>['seconds'][number];

/** Seconds over which rates are averaged. */
const SPAN = 5;
const HEIGHT = 180;

/** Charts of the last five minutes. */
export function LoadCharts({ seconds }: { seconds: readonly Second[] }) {
  const { times, requests, tokens, ttft } = useMemo(() => seriesOf(seconds), [seconds]);
  const shared = { times, formatTime: (unixSeconds: number) => clock(unixSeconds * 1000), height: HEIGHT };
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      <Card title="Requests per second" hint="Finished requests and errors" className="lg:col-span-2">
        <Suspense fallback={<ChartSpace />}>
          <Chart {...shared} label="Requests and errors per second" series={requests} unit="rate" />
        </Suspense>
      </Card>
      <Card title="Tokens per second" hint="Counted when a request finishes">
        <Suspense fallback={<ChartSpace />}>
          <Chart {...shared} label="Prompt and completion tokens per second" series={tokens} unit="rate" />
        </Suspense>
      </Card>
      <Card title="Time to first token" hint="p50 and p95 over 10 seconds">
        <Suspense fallback={<ChartSpace />}>
          <Chart {...shared} label="Time to first token, p50 and p95" series={ttft} unit="ms" />
        </Suspense>
      </Card>
    </div>
  );
}

function seriesOf(
  seconds: readonly Second[],
): { times: number[] } & Record<'requests' | 'tokens' | 'ttft', Series[]> {
  const rate = (of: (second: Second) => number) => smooth(seconds.map(of), SPAN);
  const ttft = (share: 'p50' | 'p95') =>
    seconds.map(({ ttft_ms: percentiles }) => percentiles?.[share] ?? null);
  return {
    times: seconds.map(({ at }) => Date.parse(at) / 1000),
    requests: [
      { label: 'Requests', color: COLORS.requests, shape: 'area', values: rate(({ requests }) => requests) },
      // Hidden at zero, because a constant red line would look like errors.
      {
        label: 'Errors',
        color: COLORS.errors,
        shape: 'line',
        sparse: true,
        values: rate(({ errors }) => errors),
      },
    ],
    tokens: [
      {
        label: 'Prompt',
        color: COLORS.prompt,
        shape: 'line',
        values: rate((second) => second.prompt_tokens),
      },
      {
        label: 'Completion',
        color: COLORS.completion,
        shape: 'area',
        values: rate((second) => second.completion_tokens),
      },
    ],
    ttft: [
      { label: 'p50', color: COLORS.ttft, shape: 'line', values: ttft('p50') },
      { label: 'p95', color: COLORS.ttft, shape: 'line', tail: true, values: ttft('p95') },
    ],
  };
}

/** A placeholder with the height of a chart and its legend. */
export function ChartSpace() {
  return <Skeleton className="h-[208px] w-full" />;
}
