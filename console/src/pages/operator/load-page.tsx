import type { ReactNode } from 'react';
import type { ResponseOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Card, Figure } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { Notice, Skeleton } from '../../components/states.tsx';
import { oneDecimal, percent, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { Live } from './live.tsx';
import { ChartSpace, LoadCharts } from './load-charts.tsx';
import { recent } from './load-figures.ts';
import { LoadAccounts } from './load-accounts.tsx';
import { LoadModels } from './load-models.tsx';

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
        <Skeleton className="h-[4.5rem] w-full" />
      </Card>
      <Card title="Requests per second">
        <ChartSpace />
      </Card>
    </div>
  );
}
