import { Users } from 'lucide-react';
import { lazy, Suspense, useMemo } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { COLORS } from '../../charts/colors.ts';
import type { Series } from '../../charts/series.ts';
import { Card, Figure } from '../../components/card.tsx';
import { TextLink } from '../../components/link.tsx';
import { EmptyState, Notice, Skeleton } from '../../components/states.tsx';
import { numberColumn, Table, type Column } from '../../components/table.tsx';
import { oneDecimal, percent, whole } from '../../format/number.ts';
import { clock, duration } from '../../format/time.ts';
import { recent, smooth } from './load-figures.ts';

/** Window of the rates, in seconds. The percentiles of the API cover the same window. */
const RATE_SPAN = 10;
/** Window of the error share, in seconds. */
const SHARE_SPAN = 60;

export function LoadFigures({ load }: { load: ResponseOf<'readLoad'> }) {
  const rates = recent(load.seconds, RATE_SPAN);
  const shares = recent(load.seconds, SHARE_SPAN);
  const ttft = load.seconds.at(-1)?.ttft_ms ?? null;
  return (
    <>
      {load.instances !== null && load.instances > 1 && (
        <Notice>
          Showing 1 of {load.instances} instances: <strong>{load.instance}</strong>. A reload may show another
          instance.
        </Notice>
      )}
      <Card>
        <dl className="grid grid-cols-2 gap-x-4 gap-y-5 sm:grid-cols-3 lg:grid-cols-6">
          <Figure label="In flight" value={whole(load.in_flight)} note="on replicas now" />
          <Figure label="Waiting" value={whole(load.waiting)} note="for a replica with room" />
          <Figure
            label="Requests"
            value={oneDecimal(rates.requestsPerSecond)}
            unit="/s"
            note={`last ${RATE_SPAN} s`}
          />
          <Figure
            label="Tokens"
            value={
              rates.tokensPerSecond < 10
                ? oneDecimal(rates.tokensPerSecond)
                : whole(Math.round(rates.tokensPerSecond))
            }
            unit="/s"
            note={`last ${RATE_SPAN} s`}
          />
          <Figure
            label="Errors"
            value={shares.errorShare === null ? '—' : percent(shares.errorShare)}
            note={shares.errorShare === null ? 'no finished requests' : 'last minute'}
          />
          <Figure
            label="Time to first token"
            value={ttft === null ? '—' : duration(ttft.p50)}
            note={
              ttft === null
                ? `no requests in ${RATE_SPAN} s`
                : `p50, last ${RATE_SPAN} s; p95: ${duration(ttft.p95)}`
            }
          />
        </dl>
      </Card>
    </>
  );
}

const Chart = lazy(() => import('../../charts/chart.tsx'));

type Second = ResponseOf<'readLoad'>['seconds'][number];

/** Seconds over which rates are averaged. */
const SPAN = 5;
const HEIGHT = 180;

/** Charts of the last five minutes; placeholders until they are loaded. */
export function LoadCharts({ seconds }: { seconds: readonly Second[] | undefined }) {
  const charts = useMemo(() => chartsOf(seconds ?? []), [seconds]);
  const times = seconds?.map(({ at }) => Date.parse(at) / 1000) ?? [];
  const placeholder = <Skeleton className="h-[208px] w-full" />;
  return (
    <div className="grid gap-4 xl:grid-cols-3">
      {charts.map(({ title, hint, ...chart }) => (
        <Card key={title} title={title} hint={hint}>
          {seconds === undefined ? (
            placeholder
          ) : (
            <Suspense fallback={placeholder}>
              <Chart times={times} formatTime={timeOf} height={HEIGHT} {...chart} />
            </Suspense>
          )}
        </Card>
      ))}
    </div>
  );
}

const timeOf = (unixSeconds: number): string => clock(unixSeconds * 1000);

interface LoadChart {
  title: string;
  hint: string;
  /** Accessible name. */
  label: string;
  unit: 'rate' | 'ms';
  series: Series[];
}

function chartsOf(seconds: readonly Second[]): LoadChart[] {
  const rate = (of: (second: Second) => number) => smooth(seconds.map(of), SPAN);
  const ttft = (share: 'p50' | 'p95') =>
    seconds.map(({ ttft_ms: percentiles }) => percentiles?.[share] ?? null);
  const requests = rate((second) => second.requests);
  const errors = rate((second) => second.errors);
  const prompt = rate((second) => second.prompt_tokens);
  const completion = rate((second) => second.completion_tokens);
  return [
    {
      title: 'Requests per second',
      hint: 'Finished requests and errors',
      label: 'Requests and errors per second',
      unit: 'rate',
      series: [
        { label: 'Requests', color: COLORS.requests, shape: 'area', values: requests },
        // Hidden at zero, because a constant red line would look like errors.
        { label: 'Errors', color: COLORS.errors, shape: 'line', sparse: true, values: errors },
      ],
    },
    {
      title: 'Tokens per second',
      hint: 'Counted when a request finishes',
      label: 'Prompt and completion tokens per second',
      unit: 'rate',
      series: [
        { label: 'Prompt', color: COLORS.prompt, shape: 'line', values: prompt },
        { label: 'Completion', color: COLORS.completion, shape: 'area', values: completion },
      ],
    },
    {
      title: 'Time to first token',
      hint: 'p50 and p95 over 10 seconds',
      label: 'Time to first token, p50 and p95',
      unit: 'ms',
      series: [
        { label: 'p50', color: COLORS.ttft, shape: 'line', values: ttft('p50') },
        { label: 'p95', color: COLORS.ttft, shape: 'line', tail: true, values: ttft('p95') },
      ],
    },
  ];
}

type AccountLoad = ResponseOf<'readLoad'>['accounts'][number];

const ACCOUNT_COLUMNS: readonly Column<AccountLoad>[] = [
  {
    name: 'account',
    heading: 'Account',
    grow: true,
    cell: ({ account_id: id, account_name: name, model }) => (
      <>
        <span className="block truncate">
          <TextLink to={`/operator/accounts/${id}`}>{name ?? id}</TextLink>
        </span>
        <span className="block truncate text-xs text-ink-3 md:hidden" title={model}>
          {model}
        </span>
      </>
    ),
  },
  {
    name: 'model',
    heading: 'Model',
    from: 'md',
    cell: ({ model }) => (
      <span className="block truncate" title={model}>
        {model}
      </span>
    ),
  },
  numberColumn({ name: 'weight', heading: 'Weight', from: 'md' }, ({ weight }) => weight, oneDecimal),
  numberColumn({ name: 'running', heading: 'Running' }, ({ running }) => running),
  numberColumn({ name: 'waiting', heading: 'Waiting' }, ({ waiting }) => waiting),
];

export function LoadAccounts({ accounts }: { accounts: readonly AccountLoad[] }) {
  return (
    <Card
      title="Accounts"
      hint="Accounts with running or waiting requests. When a model is busy, accounts share it in proportion to the weights of their plans."
      flush
    >
      {accounts.length === 0 ? (
        <EmptyState icon={Users} title="No requests">
          No account has running or waiting requests.
        </EmptyState>
      ) : (
        <Table
          label="Accounts"
          columns={ACCOUNT_COLUMNS}
          rows={accounts}
          keyOf={({ model, account_id: id }) => `${model} ${id}`}
        />
      )}
    </Card>
  );
}
