import { UserPlus } from 'lucide-react';
import { lazy, Suspense, useMemo } from 'react';
import { useParams } from 'wouter';
import type { ItemOf, ResponseOf } from '../../api/client.ts';
import { both, useRead, type QueryState } from '../../api/queries.ts';
import { ActorName, SubjectName } from '../../audit/audit-names.tsx';
import { actionLabel } from '../../audit/audit-texts.ts';
import { COLORS } from '../../charts/colors.ts';
import { Button, ButtonLink } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { LimitMeters } from '../../components/limit-meter.tsx';
import { Link, TextLink } from '../../components/link.tsx';
import { OverlayHost } from '../../components/overlays.tsx';
import { Page } from '../../components/page.tsx';
import { Loaded, Notice, Skeleton, SkeletonRows } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { UsageFigures } from '../../components/usage-figures.tsx';
import { whole } from '../../format/number.ts';
import { utcSpan, utcTick } from '../../format/time.ts';
import { InviteDialog } from '../../members/invite-dialog.tsx';
import { InvitationsCard, MembersCard } from '../../members/members-card.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { AccountActions, AccountState, editLimits, PlanName, type Account } from './account-changes.tsx';

const PARENT = { label: 'Accounts', to: '/operator/accounts' };

/** One account: status, usage, limits, keys, members and recent changes. */
export default function AccountPage() {
  const { id } = useParams<{ id: string }>();
  const account = useRead('getAccount', { params: { id } });
  if (account.data !== undefined) return <Account key={id} account={account.data} />;
  return (
    <Page title="Account" parent={PARENT}>
      <Loaded card query={account}>
        {() => null}
      </Loaded>
    </Page>
  );
}

function Account({ account }: { account: Account }) {
  const plans = useRead('listPlans', undefined);
  const defaultPlan = plans.data?.data.find((plan) => plan.default)?.name;
  const plan = plans.data?.data.find(({ name }) => name === (account.plan ?? defaultPlan));
  const [query, change] = useQueryState();
  const invite = (
    <Button
      icon={<UserPlus />}
      disabled={account.status === 'closed'}
      onClick={() => change({ invite: 'member' })}
    >
      Invite member
    </Button>
  );
  return (
    <Page
      title={account.name}
      parent={PARENT}
      hint={<Head account={account} defaultPlan={defaultPlan} />}
      actions={
        <>
          {invite}
          <AccountActions account={account} plan={plan} />
        </>
      }
    >
      <div className="space-y-4">
        <State account={account} lost={plan !== undefined && plan.limits === null} />
        <AccountUsage accountId={account.id} />
        <div className="grid items-start gap-4 lg:grid-cols-2">
          <AccountLimits account={account} plans={plans} />
          <AccountKeys accountId={account.id} />
        </div>
        <MembersCard titled account={account} editable={account.status !== 'closed'} />
        <InvitationsCard accountId={account.id} />
        <AccountAudit accountId={account.id} />
      </div>
      <OverlayHost />
      {query.has('invite') && (
        <InviteDialog
          account={account}
          {...(query.get('invite') === 'owner' && { role: 'owner', cancel: 'Later' })}
          onClose={() => change({ invite: null }, { replace: true })}
        />
      )}
    </Page>
  );
}

function Head({ account, defaultPlan }: { account: Account; defaultPlan: string | undefined }) {
  return (
    <span className="flex flex-wrap items-center gap-x-4 gap-y-1">
      <AccountState status={account.status} />
      <span>
        Plan <PlanName plan={account.plan} defaultPlan={defaultPlan} />
      </span>
      <span>
        Created <Time at={account.created_at} />
      </span>
      <span className="font-mono text-xs">{account.id}</span>
    </span>
  );
}

/** Explains why requests of the account are refused, if they are. */
function State({
  account: { status, plan, limits_damaged: damaged },
  lost,
}: {
  account: Account;
  lost: boolean;
}) {
  if (status === 'closed') {
    return <Notice>This account is permanently closed. Its usage, receipts and audit log are kept.</Notice>;
  }
  if (status === 'suspended') {
    return (
      <Notice tone="warn" title="This account is suspended">
        Requests with its keys are refused until the account is resumed.
      </Notice>
    );
  }
  if (damaged) {
    return (
      <Notice tone="bad" title="The limits of this account are damaged">
        Its own limits in the database cannot be read, so all its requests are refused. Edit the limits to
        replace them.
      </Notice>
    );
  }
  if (!lost) return null;
  return (
    <Notice tone="bad" title="The plan of this account is not in the configuration">
      All requests of this account are refused. Add the plan {plan} to the configuration file, or choose
      another <TextLink to="/operator/plans">plan</TextLink> for the account.
    </Notice>
  );
}

const EVERY_MS = 5000;

interface AccountLimitsProps {
  account: Account;
  plans: QueryState<ResponseOf<'listPlans'>>;
}

/** Usage of the limits of an account: its own, and those of its plan that it does not replace. */
function AccountLimits({ account, plans }: AccountLimitsProps) {
  const plan = plans.data?.data.find((one) =>
    account.plan === null ? one.default : one.name === account.plan,
  );
  return (
    <Card
      title="Limits"
      hint={
        <>
          Set by the <TextLink to="/operator/plans">plan</TextLink>
          {account.limits !== null && ' and for this account'}, and shared by all keys of the account
        </>
      }
      actions={
        account.status !== 'closed' && (
          <Button size="small" disabled={plans.data === undefined} onClick={() => editLimits(account, plan)}>
            Edit limits
          </Button>
        )
      }
    >
      <Loaded query={plans} loading={<Skeleton className="h-24 w-full" />}>
        {() => {
          if (account.limits_damaged) {
            return (
              <p className="text-sm text-ink-3">All requests are refused because the limits are damaged.</p>
            );
          }
          if (plan === undefined && account.limits === null)
            return <p className="text-sm text-ink-3">This account has no plan, so it has no limits.</p>;
          const models = { ...plan?.limits?.models, ...account.limits?.models };
          return plan?.limits === null ? (
            <p className="text-sm text-ink-3">
              All requests are refused because the plan is not in the configuration.
            </p>
          ) : (
            <div className="space-y-5">
              {[null, ...Object.keys(models)].map((model) => (
                <LimitsOf key={model} accountId={account.id} model={model} />
              ))}
            </div>
          );
        }}
      </Loaded>
    </Card>
  );
}

/** Usage of the limits for one model. If `model` is null: of the limits for all models together. */
function LimitsOf({ accountId, model }: { accountId: string; model: string | null }) {
  const query = { account_id: accountId, ...(model !== null && { model }) };
  const limits = useRead('readLimits', { query }, { everyMs: EVERY_MS });
  return (
    <Loaded query={limits} loading={<Skeleton className="h-24 w-full" />}>
      {({ data }) => (
        <LimitMeters
          {...(model !== null && { title: model })}
          limitStatuses={data.filter((limitStatus) => limitStatus.model === model)}
        />
      )}
    </Loaded>
  );
}

const Chart = lazy(() => import('../../charts/chart.tsx'));

type Usage = ItemOf<'readUsage'>;

const HEIGHT = 140;

/** Usage of an account this month. */
function AccountUsage({ accountId }: { accountId: string }) {
  const all = useRead('readUsage', { query: { account_id: accountId } }, { everyMs: 60_000 });
  const days = useRead('readUsage', { query: { account_id: accountId, by: 'day' } }, { everyMs: 60_000 });
  return (
    <Card
      title="Usage this month"
      hint="Calendar month in UTC"
      actions={
        <div className="flex flex-wrap gap-2">
          <ButtonLink size="small" to={`/usage?account=${accountId}`}>
            Usage
          </ButtonLink>
          <ButtonLink size="small" to={`/requests?account=${accountId}`}>
            Requests
          </ButtonLink>
        </div>
      }
    >
      <Loaded query={both(all, days)} loading={<Skeleton className="h-40 w-full" />}>
        {([sums, byDay]) => (
          <div className="grid gap-6 lg:grid-cols-[18rem_minmax(0,1fr)]">
            <UsageFigures usage={sums.data[0]} className="content-start" />
            <Days days={byDay.data} readAt={days.dataUpdatedAt} />
          </div>
        )}
      </Loaded>
    </Card>
  );
}

/** `readAt` in Unix milliseconds. */
function Days({ days, readAt }: { days: readonly Usage[]; readAt: number }) {
  const { times, series } = useMemo(() => {
    const byDay = new Map(days.map((row) => [row.day, row]));
    const month = daysOfMonth(new Date(readAt));
    return {
      times: month.map((day) => Date.parse(day) / 1000),
      series: [
        {
          label: 'Prompt tokens',
          color: COLORS.prompt,
          shape: 'bar' as const,
          values: month.map((day) => byDay.get(day)?.prompt_tokens ?? 0),
        },
        {
          label: 'Completion tokens',
          color: COLORS.completion,
          shape: 'bar' as const,
          values: month.map((day) => byDay.get(day)?.completion_tokens ?? 0),
        },
      ],
    };
  }, [days, readAt]);
  return (
    <Suspense fallback={<Skeleton className="h-[168px] w-full" />}>
      <Chart
        label="Tokens per day"
        times={times}
        series={series}
        unit="count"
        partial={times.length - 1}
        formatTime={utcSpan('day')}
        formatTick={utcTick('day')}
        height={HEIGHT}
      />
    </Suspense>
  );
}

/** Returns the UTC days of the month up to `now`, such as `2026-11-21`. */
function daysOfMonth(now: Date): string[] {
  const month = now.toISOString().slice(0, 8);
  return Array.from({ length: now.getUTCDate() }, (_, index) => month + String(index + 1).padStart(2, '0'));
}

type Key = ItemOf<'listKeys'>;

/** Maximum page size of the API. */
const PAGE = 1000;
/** Number of keys listed here. */
const KEYS_SHOWN = 5;

/** Counts the keys of an account and lists those used last. */
function AccountKeys({ accountId }: { accountId: string }) {
  const keys = useRead('listKeys', { query: { account_id: accountId, limit: PAGE } });
  return (
    <Card
      title="API keys"
      hint={keys.data && countsOf(keys.data.data, keys.data.next_cursor !== null)}
      actions={
        <ButtonLink size="small" to={`/keys?account=${accountId}`}>
          View all keys
        </ButtonLink>
      }
    >
      <Loaded query={keys} loading={<Skeleton className="h-24 w-full" />}>
        {({ data }) => <LastUsed accountId={accountId} keys={data} />}
      </Loaded>
    </Card>
  );
}

function countsOf(keys: readonly Key[], more: boolean): string {
  const count = (status: Key['status']) => keys.filter((key) => key.status === status).length;
  const counts = (['live', 'revoked', 'expired'] as const)
    .map((status) => ({ status, number: count(status) }))
    .filter(({ status, number }) => status === 'live' || number > 0)
    .map(({ status, number }) => `${whole(number)} ${status === 'live' ? 'active' : status}`);
  return `${counts.join(', ')}${more ? ` (first ${whole(keys.length)} keys)` : ''}`;
}

function LastUsed({ accountId, keys }: { accountId: string; keys: readonly Key[] }) {
  const used = keys
    .filter(({ status }) => status === 'live')
    .toSorted((a, b) => (b.last_used_at ?? '').localeCompare(a.last_used_at ?? ''))
    .slice(0, KEYS_SHOWN);
  if (used.length === 0) return <p className="text-sm text-ink-3">No active keys</p>;
  return (
    <ul className="divide-y divide-line text-sm">
      {used.map(({ id, name, last_four: lastFour, last_used_at: at }) => (
        <li key={id} className="flex items-baseline justify-between gap-4 py-2 first:pt-0 last:pb-0">
          <Link
            to={`/keys?account=${accountId}&key=${id}`}
            className="min-w-0 truncate font-medium hover:underline"
          >
            {name} <span className="font-mono text-xs font-normal text-ink-3">…{lastFour}</span>
          </Link>
          <span className="shrink-0 text-xs text-ink-3">
            {at === null ? 'Never used' : <Time at={at} relative />}
          </span>
        </li>
      ))}
    </ul>
  );
}

const CHANGES_SHOWN = 8;

/** The latest audit log entries of an account. */
function AccountAudit({ accountId }: { accountId: string }) {
  const audit = useRead('listAudit', { query: { account_id: accountId, limit: CHANGES_SHOWN } });
  return (
    <Card
      title="Recent changes"
      actions={
        <ButtonLink size="small" to={`/operator/audit?of=${accountId}`}>
          View audit log
        </ButtonLink>
      }
      flush
    >
      <Loaded
        query={audit}
        loading={<SkeletonRows rows={3} />}
        empty={<p className="px-4 pb-5 text-sm text-ink-3 sm:px-5">No changes yet</p>}
      >
        {({ data }) => (
          <ul className="divide-y divide-line text-sm">
            {data.map((entry) => (
              <li
                key={entry.id}
                className="flex flex-wrap items-baseline gap-x-4 gap-y-0.5 px-4 py-2.5 sm:px-5"
              >
                <span className="min-w-0 flex-1 basis-60">
                  {actionLabel(entry.action)} <SubjectName entry={entry} />
                </span>
                <span className="min-w-0 text-xs text-ink-3">
                  <ActorName entry={entry} />, <Time at={entry.at} relative />
                </span>
              </li>
            ))}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}
