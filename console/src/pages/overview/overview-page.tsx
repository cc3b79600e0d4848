import { LayoutDashboard } from 'lucide-react';
import type { ReactNode } from 'react';
import { both, type QueryState } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card, Figure } from '../../components/card.tsx';
import { TextLink } from '../../components/link.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { ModelName } from '../../components/model-name.tsx';
import { NoAccount } from '../../components/no-account.tsx';
import { Page } from '../../components/page.tsx';
import { Skeleton, SkeletonRows } from '../../components/states.tsx';
import { DataAge } from '../../components/updated-at.tsx';
import { openConnect } from '../../connect/open-connect.tsx';
import { inexact, money } from '../../format/money.ts';
import { compact, percent, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { useScope, useServiceScope, type Scope } from '../../state/scope.ts';
import { GetStarted } from './get-started.tsx';
import { HourBars } from './hour-bars.tsx';
import { causesOf, Problems } from './problems-card.tsx';
import { byCode, hoursOf, type Hour } from './problems.ts';
import { MAX_FAILED, useOverview, type OverviewReads } from './use-overview.ts';

/** Rows of a ranking. */
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
  const { hour, byHour, refused, ofDays, ofMonth, limits, refusedPath } = reads;
  const hours = both(byHour, refused);
  const sum = (name: 'failed' | 'refused') => (data: NonNullable<(typeof hours)['data']>) =>
    compact(hoursOf(hour, data[0].data, data[1].data).reduce((total, one) => total + one[name], 0));
  const budget = limits.data?.data.find(({ limit, model }) => limit === 'usd_per_month' && model === null);
  return (
    <Card title="Last 24 hours" hint="A bar opens the requests of its hour. Hours are in UTC.">
      <Loaded query={hours} loading={<Skeleton className="h-40 w-full" />}>
        {([{ data: usage }, { data: refusals }]) => (
          <HourBars
            hours={hoursOf(hour, usage, refusals)}
            linkOf={({ from, to }: Hour) => reads.requests({ from, to })}
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

/** A number that opens what it counts. */
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

/** What costs the most, is the slowest, and fails the most. */
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
  /** The highest first. */
  rows: readonly { id: string; label: ReactNode; value: string; to: string }[];
}

/** The first rows of a ranking, each with a link to its requests or its usage. */
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
