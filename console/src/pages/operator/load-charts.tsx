import { lazy, Suspense, useMemo } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { Card } from '../../components/card.tsx';
import { Skeleton } from '../../components/states.tsx';
import { clock } from '../../format/time.ts';
import { smooth } from './load-figures.ts';

const Chart = lazy(() => import('../../charts/chart.tsx'));

/** Seconds over which rates are averaged. */
const SPAN = 5;
const HEIGHT = 180;

/** Charts of the last five minutes. */
export function LoadCharts({ seconds }: { seconds: ResponseOf<'readLoad'>['seconds'] }) {
  const { times, requests, tokens, ttft } = useMemo(() => {
    const rate = (label: string, color: number, values: number[], shape: 'line' | 'area') => ({
      label,
      color,
      shape,
      // A line of no errors would look like a line of errors.
      sparse: label === 'Errors',
      values: smooth(values, SPAN),
    });
    return {
      times: seconds.map(({ at }) => Date.parse(at) / 1000),
      requests: [
        rate(
          'Requests',
          1,
          seconds.map(({ requests }) => requests),
          'area',
        ),
        rate(
          'Errors',
          5,
          seconds.map(({ errors }) => errors),
          'line',
        ),
      ],
      tokens: [
        rate(
          'Prompt',
          3,
          seconds.map(({ prompt_tokens }) => prompt_tokens),
          'line',
        ),
        rate(
          'Completion',
          1,
          seconds.map(({ completion_tokens }) => completion_tokens),
          'area',
        ),
      ],
      ttft: [
        {
          label: 'Median',
          color: 2,
          shape: 'line' as const,
          values: seconds.map(({ ttft_ms: ttftMs }) => ttftMs),
        },
      ],
    };
  }, [seconds]);
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
      <Card title="Time to first token" hint="Median of each second">
        <Suspense fallback={<ChartSpace />}>
          <Chart {...shared} label="Median time to first token" series={ttft} unit="ms" />
        </Suspense>
      </Card>
    </div>
  );
}

/** Has the height of a chart with its legend. */
export function ChartSpace() {
  return <Skeleton className="h-[208px] w-full" />;
}
