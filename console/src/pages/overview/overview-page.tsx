import { LayoutDashboard } from 'lucide-react';
import type { ReactNode } from 'react';
import { both, useRead, type QueryState } from '../../api/queries.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Card, Figure } from '../../components/card.tsx';
import { Link, TextLink } from '../../components/link.tsx';
import { ModelName } from '../../components/model-name.tsx';
import { NoAccount } from '../../components/no-account.tsx';
import { Page } from '../../components/page.tsx';
import { Loaded, Skeleton, SkeletonRows } from '../../components/states.tsx';
import { StepNumber } from '../../components/step-number.tsx';
import { DataAge } from '../../components/updated-at.tsx';
import { openConnect } from '../../connect/open-connect.tsx';
import { inexact, money } from '../../format/money.ts';
import { compact, counted, percent, whole } from '../../format/number.ts';
import { duration, utcSpan, utcTick } from '../../format/time.ts';
import { barsOf, type Bar } from '../../requests/bars.ts';
import { useScope, useServiceScope, type Scope } from '../../state/account.ts';
import { causesOf, Problems } from './problems-card.tsx';
import { byCode } from './problems.ts';
import { MAX_FAILED, useOverview, type OverviewReads } from './use-overview.ts';

const SHOWN = 5;

/** The start page: what needs attention, the last day, and what was spent, slow and failed. */
export default function OverviewPage() {
  const own = useScope();
  const scope = useServiceScope();
  if (own.account === null && !own.all) return <NoAccount title="Overview" icon={LayoutDashboard} />;
  return (
    <Page
      title="Overview"
      hint={scope.account === null ? 'All accounts' : scope.account.name}
      actions={
        <>
          <DataAge operations={['readUsage', 'listRefusals', 'listServedModels']} />
          <Button onClick={() => openConnect()}>Connect</Button>
        </>
      }
    >
      <Overview key={scope.account?.id ?? ''} scope={scope} accountId={own.account?.id ?? null} />
    </Page>
  );
}

function Overview({ scope, accountId }: { scope: Scope; accountId: string | null }) {
  const reads = useOverview(scope, accountId);
  return (
    <div className="space-y-4">
      <Problems reads={reads} isOperator={scope.all} hasAccount={accountId !== null} />
      {reads.latest.data?.data.length === 0 ? (
        <GetStarted accountId={scope.account?.id ?? null} />
      ) : (
        <>
          <LastDay reads={reads} isOfAccount={!scope.all} />
          <Rankings reads={reads} />
        </>
      )}
    </div>
  );
}

/** The requests of the last 24 hours, and the figures of the page. */
function LastDay({ reads, isOfAccount }: { reads: OverviewReads; isOfAccount: boolean }) {
  const { period, byHour, refused, ofDays, ofMonth, limits, refusedPath } = reads;
  const hours = both(byHour, refused);
  const sum = (name: 'failed' | 'refused') => (data: NonNullable<(typeof hours)['data']>) =>
    compact(barsOf(period, data[0].data, data[1].data).reduce((total, one) => total + one[name], 0));
  const budget = limits.data?.data.find(({ limit, model }) => limit === 'usd_per_month' && model === null);
  return (
    <Card title="Last 24 hours" hint="A bar opens the requests of its hour. Hours are in UTC.">
      <Loaded query={hours} loading={<Skeleton className="h-40 w-full" />}>
        {([{ data: usage }, { data: refusals }]) => (
          <HourBars
            hours={barsOf(period, usage, refusals)}
            linkOf={({ from, to }: Bar) => reads.requests({ from, to })}
          />
        )}
      </Loaded>
      <dl className="mt-5 grid grid-cols-2 gap-x-4 gap-y-5 lg:grid-cols-4">
        <LinkedFigure
          label="Cost this month"
          note={
            isOfAccount && budget !== undefined
              ? `${percent(Number(budget.used) / Number(budget.bound))} of ${money(String(budget.bound))}`
              : isOfAccount
                ? 'No budget'
                : 'All accounts'
          }
          to={reads.usage({ range: 'month' })}
          query={ofMonth}
          text={({ data: [sums] }) => money(sums?.cost_usd ?? '0')}
        />
        <LinkedFigure
          label="First token, p95"
          note="Since yesterday"
          to={reads.usage()}
          query={ofDays}
          text={({ data: [sums] }) => (sums?.ttft_ms ? duration(sums.ttft_ms.p95) : '—')}
        />
        <LinkedFigure
          label="Errors"
          note="Last 24 hours"
          to={reads.requests({ status: 'error' })}
          query={hours}
          text={sum('failed')}
        />
        <LinkedFigure
          label="Refused"
          note="Last 24 hours"
          to={refusedPath}
          query={hours}
          text={sum('refused')}
        />
      </dl>
    </Card>
  );
}

interface LinkedFigureProps<Data> {
  label: string;
  note: string;
  to: string;
  query: QueryState<Data>;
  text: (data: Data) => string;
}

function LinkedFigure<Data>({ label, note, to, query: { data, error }, text }: LinkedFigureProps<Data>) {
  const shown = data === undefined ? '—' : text(data);
  const value =
    data === undefined && error === null ? (
      <Skeleton className="h-7 w-20" />
    ) : (
      <TextLink to={to} aria-label={`${label}: ${shown}`}>
        {shown}
      </TextLink>
    );
  return <Figure label={label} value={value} note={note} />;
}

function Rankings({ reads }: { reads: OverviewReads }) {
  const { byKey, byModel, failed, refusals, refusedPath } = reads;
  const spent = (byKey.data?.data ?? [])
    .flatMap(({ key_id: id, key_name: name, cost_usd: cost }) =>
      id === null || inexact(cost) === 0 ? [] : [{ id, name: name ?? id, cost }],
    )
    .toSorted((a, b) => inexact(b.cost) - inexact(a.cost))
    .slice(0, SHOWN);
  const slow = (byModel.data?.data ?? [])
    .flatMap(({ model, ttft_ms: ttft }) => (model === null || ttft === null ? [] : [{ model, ms: ttft.p95 }]))
    .toSorted((a, b) => b.ms - a.ms);
  const errors = [
    ...causesOf(failed.data?.data ?? []).map(({ code, count }) => ({
      label: code,
      count,
      to: reads.requests({ status: code }),
    })),
    ...byCode(refusals.data?.data ?? []).map(({ code, count }) => ({
      label: `${code}, refused`,
      count,
      to: refusedPath,
    })),
  ].toSorted((a, b) => b.count - a.count);
  return (
    <div className="grid grid-cols-1 items-start gap-4 lg:grid-cols-3">
      <Ranking
        title="Spend by key"
        hint="This month"
        query={byKey}
        rows={spent.map(({ id, name, cost }) => ({
          id,
          label: name,
          value: money(cost),
          to: reads.usage({ range: 'month', key: id }),
        }))}
      />
      <Ranking
        title="Slowest models"
        hint="First token, p95, since yesterday"
        query={byModel}
        rows={slow.map(({ model, ms }) => ({
          id: model,
          label: <ModelName short id={model} />,
          value: duration(ms),
          to: reads.usage({ ...reads.days, model }),
        }))}
      />
      <Ranking
        title="Errors by cause"
        hint={`Last 24 hours${failed.data?.next_cursor ? `; the latest ${MAX_FAILED} errors` : ''}`}
        query={both(failed, refusals)}
        rows={errors.map(({ label, count, to }) => ({ id: label, label, value: whole(count), to }))}
      />
    </div>
  );
}

interface RankingProps {
  title: string;
  hint: string;
  query: QueryState<unknown>;
  rows: readonly { id: string; label: ReactNode; value: string; to: string }[];
}

function Ranking({ title, hint, query, rows }: RankingProps) {
  return (
    <Card flush title={title} hint={hint}>
      <Loaded query={query} loading={<SkeletonRows rows={3} />}>
        {() =>
          rows.length === 0 ? (
            <p className="px-4 pb-4 text-sm text-ink-3 sm:px-5">None</p>
          ) : (
            <ul className="divide-y divide-line">
              {rows.slice(0, SHOWN).map(({ id, label, value, to }) => (
                <li
                  key={id}
                  className="flex items-baseline justify-between gap-4 px-4 py-2.5 text-sm sm:px-5"
                >
                  <TextLink to={to} className="min-w-0 truncate">
                    {label}
                  </TextLink>
                  <span className="shrink-0 text-ink-3 tabular-nums">{value}</span>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}

/** The first steps of an account without requests. `accountId`: null for all accounts. */
function GetStarted({ accountId }: { accountId: string | null }) {
  const keys = useRead('listKeys', {
    query: { ...(accountId !== null && { account_id: accountId }), limit: 1 },
  });
  const steps = [
    {
      title: 'Create an API key',
      hint: 'Your apps send it with every request.',
      done: (keys.data?.data.length ?? 0) > 0,
      to: '/keys?create=1',
      action: 'Create key',
    },
    {
      title: 'Send a request',
      hint: 'Try a model, then copy the request as code.',
      done: false,
      to: '/playground',
      action: 'Open playground',
    },
    {
      title: 'Connect your app',
      hint: 'Any OpenAI client works with your key and base URL.',
      done: false,
      to: '/docs/guide/clients',
      action: 'Read the guide',
    },
  ];
  return (
    <Card title="Get started">
      <ol className="grid gap-4 md:grid-cols-3">
        {steps.map(({ title, hint, done, to, action }, index) => (
          <li key={title} className="flex gap-3 text-sm">
            <StepNumber number={index + 1} state={done ? 'done' : 'later'} />
            <div className="min-w-0">
              <p className="font-medium">{title}</p>
              <p className="mt-0.5 mb-2 text-xs leading-5 text-ink-3">{hint}</p>
              <ButtonLink size="small" to={to}>
                {action}
              </ButtonLink>
            </div>
          </li>
        ))}
      </ol>
    </Card>
  );
}

/** What an hour consists of, from the bottom of its bar. */
const PARTS = [
  { name: 'completed', label: 'Completed', color: 'bg-accent' },
  { name: 'failed', label: 'Failed', color: 'bg-bad' },
  { name: 'refused', label: 'Refused', color: 'bg-warn' },
] as const;

/** The requests of each hour as a bar that is a link. */
function HourBars({ hours, linkOf }: { hours: readonly Bar[]; linkOf: (hour: Bar) => string }) {
  const highest = Math.max(1, ...hours.map(sumOf));
  const tick = (from: string) => utcTick('hour')(Date.parse(from) / 1000);
  return (
    <figure>
      <ul
        className="flex h-32 items-stretch gap-px border-b border-line sm:gap-0.5"
        aria-label="Requests by hour"
      >
        {hours.map((hour) => {
          const words = PARTS.flatMap(({ name, label }) =>
            name === 'completed' || hour[name] > 0 ? [`${whole(hour[name])} ${label.toLowerCase()}`] : [],
          );
          const title = `${utcSpan('hour')(Date.parse(hour.from) / 1000)}: ${words.join(', ')}`;
          return (
            <li key={hour.from} className="flex min-w-0 flex-1">
              <Link
                to={linkOf(hour)}
                aria-label={title}
                title={title}
                className="flex w-full flex-col-reverse rounded-t-sm hover:bg-hover"
              >
                {PARTS.map(({ name, color }) => (
                  <span
                    key={name}
                    className={`${color} ${hour[name] > 0 ? 'min-h-0.5' : ''}`}
                    style={{ height: `${(100 * hour[name]) / highest}%` }}
                  />
                ))}
              </Link>
            </li>
          );
        })}
      </ul>
      <div className="mt-1 flex justify-between text-2xs text-ink-3 tabular-nums" aria-hidden="true">
        {[0, 8, 16, hours.length - 1].map((at) => (
          <span key={at}>{tick(hours[at]?.from ?? '')}</span>
        ))}
      </div>
      <figcaption className="mt-2 flex flex-wrap gap-x-4 gap-y-1 text-xs text-ink-3">
        {PARTS.map(({ name, label, color }) => (
          <span key={name} className="inline-flex items-center gap-1.5">
            <span className={`size-2.5 rounded-sm ${color}`} aria-hidden="true" />
            {label}
          </span>
        ))}
        <span className="ml-auto">Highest: {counted(highest, 'request')} an hour</span>
      </figcaption>
    </figure>
  );
}

const sumOf = ({ completed, failed, refused }: Bar): number => completed + failed + refused;
