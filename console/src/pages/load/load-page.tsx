import { Users, Boxes } from 'lucide-react';
import { type ReactNode, lazy, Suspense, useMemo } from 'react';
import type { ResponseOf, ItemOf } from '../../api/client.ts';
import { useRead, useList } from '../../api/queries.ts';
import { COLORS } from '../../charts/colors.ts';
import type { Series } from '../../charts/series.ts';
import { Card, Figure } from '../../components/card.tsx';
import { StateBadge } from '../../components/state-badge.tsx';
import { TextLink } from '../../components/link.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Page } from '../../components/page.tsx';
import { Notice, Skeleton, EmptyState, SkeletonRows } from '../../components/states.tsx';
import { Table, type Column } from '../../components/table.tsx';
import { oneDecimal, percent, whole } from '../../format/number.ts';
import { duration, clock } from '../../format/time.ts';
import { Live } from '../../components/live.tsx';
import { recent, smooth } from './load-figures.ts';

const EVERY_MS = 1000;

/** Window of the rates, in seconds. The percentiles of the API cover the same window. */
const RATE_SPAN = 10;
/** Window of the error share, in seconds. */
const SHARE_SPAN = 60;

/** Live load of the service. */
export default function LoadPage() {
  const load = useRead('readLoad', undefined, { everyMs: EVERY_MS });
  return (
    <Page title="Load" hint="Current load and the last five minutes" actions={<Live query={load} />}>
      <div className="space-y-4">
        <Loaded card query={load} loading={<Waiting />}>
          {(loaded) => <Now load={loaded} />}
        </Loaded>
        <LoadModels everyMs={2 * EVERY_MS} />
        {load.data !== undefined && <LoadAccounts accounts={load.data.accounts} />}
      </div>
    </Page>
  );
}

function Now({ load }: { load: ResponseOf<'readLoad'> }) {
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
      <Figures>
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
      </Figures>
      <LoadCharts seconds={load.seconds} />
      {(load.instances === null || load.instances === 1) && (
        <p className="text-xs text-ink-3">
          Instance {load.instance}.{' '}
          {load.instances === null ? 'The number of instances is unknown.' : 'This is the only instance.'}
        </p>
      )}
    </>
  );
}

function Figures({ children }: { children: ReactNode }) {
  return (
    <Card>
      <dl className="grid grid-cols-2 gap-x-4 gap-y-5 sm:grid-cols-3 lg:grid-cols-6">{children}</dl>
    </Card>
  );
}

/** A placeholder with the size of the loaded content. */
function Waiting() {
  return (
    <div role="status" className="space-y-4">
      <span className="sr-only">Loading</span>
      <Card>
        <Skeleton className="h-60 w-full sm:h-40 lg:h-[4.5rem]" />
      </Card>
      <ChartCards requests={<ChartSpace />} tokens={<ChartSpace />} ttft={<ChartSpace />} />
    </div>
  );
}

const Chart = lazy(() => import('../../charts/chart.tsx'));

type Second = ResponseOf<'readLoad'>['seconds'][number];

/** Seconds over which rates are averaged. */
const SPAN = 5;
const HEIGHT = 180;

/** Charts of the last five minutes. */
function LoadCharts({ seconds }: { seconds: readonly Second[] }) {
  const { times, requests, tokens, ttft } = useMemo(() => seriesOf(seconds), [seconds]);
  const shared = { times, formatTime: (unixSeconds: number) => clock(unixSeconds * 1000), height: HEIGHT };
  return (
    <ChartCards
      requests={<Chart {...shared} label="Requests and errors per second" series={requests} unit="rate" />}
      tokens={
        <Chart {...shared} label="Prompt and completion tokens per second" series={tokens} unit="rate" />
      }
      ttft={<Chart {...shared} label="Time to first token, p50 and p95" series={ttft} unit="ms" />}
    />
  );
}

/** The cards of the charts. */
function ChartCards({ requests, tokens, ttft }: Record<'requests' | 'tokens' | 'ttft', ReactNode>) {
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      <Card title="Requests per second" hint="Finished requests and errors" className="lg:col-span-2">
        <Suspense fallback={<ChartSpace />}>{requests}</Suspense>
      </Card>
      <Card title="Tokens per second" hint="Counted when a request finishes">
        <Suspense fallback={<ChartSpace />}>{tokens}</Suspense>
      </Card>
      <Card title="Time to first token" hint="p50 and p95 over 10 seconds">
        <Suspense fallback={<ChartSpace />}>{ttft}</Suspense>
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
function ChartSpace() {
  return <Skeleton className="h-[208px] w-full" />;
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
  {
    name: 'weight',
    heading: 'Weight',
    numeric: true,
    from: 'md',
    cell: ({ weight }) => (Number.isInteger(weight) ? whole(weight) : oneDecimal(weight)),
  },
  { name: 'running', heading: 'Running', numeric: true, cell: ({ running }) => whole(running) },
  { name: 'waiting', heading: 'Waiting', numeric: true, cell: ({ waiting }) => whole(waiting) },
];

/** The accounts that use the models now. */
function LoadAccounts({ accounts }: { accounts: readonly AccountLoad[] }) {
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

type Model = ItemOf<'listServedModels'>;

const MODEL_COLUMNS: readonly Column<Model>[] = [
  {
    name: 'model',
    heading: 'Model',
    grow: true,
    cell: (model) => (
      <>
        <span className="block truncate font-medium" title={model.id}>
          {model.id}
        </span>
        <span className="block text-xs sm:hidden">
          <StateBadge status={model} />
        </span>
      </>
    ),
  },
  { name: 'state', heading: 'State', from: 'sm', cell: (model) => <StateBadge status={model} /> },
  {
    name: 'replicas',
    heading: 'Replicas ready',
    numeric: true,
    from: 'md',
    cell: ({ replicas, replicas_ready: ready }) => `${ready} of ${replicas}`,
  },
  {
    name: 'in-flight',
    heading: 'In flight',
    numeric: true,
    cell: ({ in_flight: inFlight }) => whole(inFlight),
  },
  { name: 'waiting', heading: 'Waiting', numeric: true, cell: ({ waiting }) => whole(waiting) },
];

/** Current load of each model. */
function LoadModels({ everyMs }: { everyMs: number }) {
  const models = useList('listServedModels', undefined, { everyMs });
  return (
    <Card
      title="Models"
      hint={
        <>
          Requests running on replicas, and requests waiting until a replica has room. See{' '}
          <TextLink to="/operator/engines">Engines</TextLink> for each replica.
        </>
      }
      flush
    >
      <Loaded
        query={models}
        loading={<SkeletonRows rows={3} />}
        empty={
          <EmptyState icon={Boxes} title="No models configured">
            Add a model on the <TextLink to="/models">Models</TextLink> page.
          </EmptyState>
        }
      >
        {(loaded) => <Table label="Models" columns={MODEL_COLUMNS} rows={loaded} keyOf={({ id }) => id} />}
      </Loaded>
    </Card>
  );
}
