import { Gauge, Plus } from 'lucide-react';
import { useMemo } from 'react';
import { useAll, useRead, type QueryState } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { addDays, useToday } from '../../components/date-range-days.ts';
import { Link, TextLink } from '../../components/link.tsx';
import { LoadFailure, Loaded, Unloaded } from '../../components/loaded.tsx';
import { Page } from '../../components/page.tsx';
import { EmptyState, Notice } from '../../components/states.tsx';
import { Table, type Column } from '../../components/table.tsx';
import { limitLabel, limitsSet, limitText } from '../../format/limits.ts';
import { counted, percent } from '../../format/number.ts';
import { DataAge } from '../../components/updated-at.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { accountsOf, byAccount, type AccountOfPlan } from './closeness.ts';
import { NewPlanDialog, PlanDialog } from './plan-dialog.tsx';
import type { Plan } from './plan-yaml.ts';

/** The configured plans, and who uses them. */
export default function PlansPage() {
  const [query, change] = useQueryState();
  const plans = useRead('listPlans', undefined);
  const all = plans.data?.data ?? [];
  return (
    <Page
      title="Plans"
      hint={
        <>
          Limits on the combined usage of all keys of an account. They are set under <Mono>plans</Mono> in the
          configuration file; changes take effect immediately. See{' '}
          <TextLink to="/docs/guide/limits">Plans and limits</TextLink>.
        </>
      }
      actions={
        plans.data?.data.length !== 0 && (
          <>
            <DataAge operations={['listPlans', 'listAccounts', 'readUsage']} />
            <Button
              icon={<Plus className="size-4" aria-hidden="true" />}
              disabled={plans.data === undefined}
              onClick={() => change({ new: '1' })}
            >
              New plan
            </Button>
          </>
        )
      }
    >
      <Loaded card query={plans} empty={<NoPlans onNew={() => change({ new: '1' })} />}>
        {({ data }) => <Plans plans={data} />}
      </Loaded>
      {plans.data !== undefined && (
        <NewPlanDialog
          open={query.get('new') !== null}
          plans={all}
          onClose={() => change({ new: null }, { replace: true })}
        />
      )}
    </Page>
  );
}

function NoPlans({ onNew }: { onNew: () => void }) {
  return (
    <Card>
      <EmptyState icon={Gauge} title="No plans configured" action={<Button onClick={onNew}>New plan</Button>}>
        Without a plan, an account has no limits. Add plans to the configuration file to limit requests,
        tokens and cost.
      </EmptyState>
    </Card>
  );
}

/** The accounts of each plan by its name. */
type Users = QueryState<ReadonlyMap<string, readonly AccountOfPlan[]>>;

/** Loads who uses the plans, and how close they are to their limits. */
function useUsers(plans: readonly Plan[]): Users {
  const today = useToday();
  const accounts = useAll('listAccounts', undefined);
  const month = useAll('readUsage', { query: { by: 'account' } }, { everyMs: 60_000 });
  const day = useAll(
    'readUsage',
    { query: { by: 'account', from: today, to: addDays(today, 1) } },
    { everyMs: 60_000 },
  );
  const data = useMemo(() => {
    if (accounts.data === undefined || month.data === undefined || day.data === undefined) return undefined;
    const usage = { day: byAccount(day.data), month: byAccount(month.data) };
    return new Map(plans.map((plan) => [plan.name, accountsOf(plan, accounts.data, usage)]));
  }, [plans, accounts.data, month.data, day.data]);
  const failed = [accounts, month, day].filter(({ error }) => error !== null);
  return {
    data,
    error: failed[0]?.error ?? null,
    refetch: () => failed.forEach(({ refetch }) => void refetch()),
  };
}

function Plans({ plans }: { plans: readonly Plan[] }) {
  const [query, change] = useQueryState();
  const users = useUsers(plans);
  const opened = query.get('plan');
  const open = plans.find(({ name }) => name === opened) ?? null;
  const hrefOf = ({ name }: Plan) => `/operator/plans?plan=${encodeURIComponent(name)}`;
  return (
    <div className="space-y-4">
      {plans.map((plan) => plan.limits === null && <MissingPlan key={plan.name} plan={plan} />)}
      <LoadFailure query={users} what="the usage of the accounts" />
      <Card flush>
        <Table
          label="Plans"
          id="plans"
          sortable
          columns={planColumns(users, hrefOf)}
          rows={plans}
          keyOf={({ name }) => name}
          onOpen={({ name }) => change({ plan: name })}
          isOpen={({ name }) => name === opened}
        />
        <p className="border-t border-line px-4 py-3 text-xs text-ink-3 sm:px-5">
          {counted(plans.length, 'plan')}. Usage is compared with limits per day and month in UTC.
        </p>
      </Card>
      <PlanDialog
        plan={open}
        plans={plans}
        users={users}
        isEditing={query.get('edit') !== null}
        onEdit={(editing) => change({ edit: editing ? '1' : null }, { replace: !editing })}
        onClose={() => change({ plan: null, edit: null })}
      />
    </div>
  );
}

function planColumns(users: Users, hrefOf: (plan: Plan) => string): Column<Plan>[] {
  const closestOf = ({ name }: Plan) => users.data?.get(name)?.[0];
  return [
    {
      name: 'name',
      heading: 'Plan',
      value: ({ name }) => name,
      cell: (plan) => (
        <>
          <span className="flex items-center gap-2">
            <Link
              to={hrefOf(plan)}
              className="max-w-40 truncate rounded-sm font-medium hover:underline sm:max-w-56"
            >
              {plan.name}
            </Link>
            {plan.default && <Badge tone="accent">Default</Badge>}
            {plan.limits === null && <Badge tone="bad">Missing</Badge>}
          </span>
          <ClosestText account={closestOf(plan)} />
        </>
      ),
    },
    {
      name: 'limits',
      heading: 'Limits',
      value: (plan) => limitsSummary(plan),
      from: 'md',
      grow: true,
      cell: (plan) => (
        <span className="block truncate text-ink-2" title={limitsSummary(plan)}>
          {limitsSummary(plan)}
        </span>
      ),
    },
    {
      name: 'accounts',
      heading: 'Accounts',
      value: ({ accounts }) => accounts,
      numeric: true,
      cell: ({ accounts }) => accounts,
    },
    {
      name: 'closest',
      heading: 'Closest to a limit',
      value: (plan) => closestOf(plan)?.closest?.share ?? null,
      from: 'sm',
      cell: (plan) =>
        users.data === undefined ? (
          <Unloaded query={users} className="h-4 w-32" />
        ) : (
          <Closest account={closestOf(plan)} />
        ),
    },
  ];
}

/** The account that is closest to a limit, and how close. */
function Closest({ account: user }: { account: AccountOfPlan | undefined }) {
  if (user === undefined || user.closest === null) return <span className="text-ink-3">—</span>;
  const { limit, share } = user.closest;
  return (
    <span className="block max-w-56">
      <span className="flex items-baseline justify-between gap-3">
        <span className="truncate">{user.account.name}</span>
        <span
          className={`tabular-nums ${share >= 1 ? 'text-bad' : share >= 0.8 ? 'text-warn' : 'text-ink-2'}`}
        >
          {percent(share)}
        </span>
      </span>
      <span className="block truncate text-xs text-ink-3">{limitLabel(limit)}</span>
    </span>
  );
}

/** On phones: the same as one line. */
function ClosestText({ account: user }: { account: AccountOfPlan | undefined }) {
  if (user === undefined || user.closest === null) return null;
  return (
    <span className="block max-w-44 truncate text-xs text-ink-3 sm:hidden">
      {user.account.name}: {percent(user.closest.share)} of {limitLabel(user.closest.limit).toLowerCase()}
    </span>
  );
}

function limitsSummary({ limits }: Plan): string {
  if (limits === null) return 'Not in the configuration';
  const { models = {} } = limits;
  const count = Object.keys(models).length;
  const parts = [
    ...limitsSet(limits).map(({ limit, bound }) => limitText(limit, bound)),
    ...(count > 0 ? [`limits for ${counted(count, 'model')}`] : []),
  ];
  return parts.length === 0 ? 'No limits' : parts.join(', ');
}

function MissingPlan({ plan }: { plan: Plan }) {
  return (
    <Notice tone="bad" title={`Plan ${plan.name} is not in the configuration`}>
      {plan.accounts === 0 ? (
        'No accounts'
      ) : (
        <TextLink to={`/operator/accounts?plan=${encodeURIComponent(plan.name)}`}>
          {counted(plan.accounts, 'account')}
        </TextLink>
      )}{' '}
      {plan.accounts === 1 ? 'uses' : 'use'} it, and all requests of{' '}
      {plan.accounts === 1 ? 'that account' : 'those accounts'} are refused. Add the plan to the configuration
      file, or choose another plan for {plan.accounts === 1 ? 'the account' : 'the accounts'}.
    </Notice>
  );
}

function Mono({ children }: { children: string }) {
  return <code className="font-mono text-xs text-ink-2">{children}</code>;
}
