import { Gauge } from 'lucide-react';
import { useMemo } from 'react';
import { together, useAll, useRead, type QueryState } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { Card } from '../../components/card.tsx';
import { addDays, useToday } from '../../components/date-range-days.ts';
import { Link, TextLink } from '../../components/link.tsx';
import { Page } from '../../components/page.tsx';
import { EmptyState, Loaded, LoadFailure, Notice, Unloaded } from '../../components/states.tsx';
import { Table, type Column } from '../../components/table.tsx';
import { DataAge } from '../../components/updated-at.tsx';
import { limitLabel, limitsSet, limitText } from '../../format/limits.ts';
import { counted, percent, whole } from '../../format/number.ts';
import { accountsOf, byAccount, type AccountOfPlan, type Plan } from './closeness.ts';

export default function PlansPage() {
  const plans = useRead('listPlans', undefined);
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
        plans.data?.data.length !== 0 && <DataAge operations={['listPlans', 'listAccounts', 'readUsage']} />
      }
    >
      <Loaded card query={plans} empty={<NoPlans />}>
        {({ data }) => <Plans plans={data} />}
      </Loaded>
    </Page>
  );
}

function NoPlans() {
  return (
    <Card>
      <EmptyState icon={Gauge} title="No plans configured">
        Without a plan, an account has no limits. Add plans to the configuration file to limit requests,
        tokens and cost.
      </EmptyState>
    </Card>
  );
}

type Users = QueryState<ReadonlyMap<string, readonly AccountOfPlan[]>>;

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
  return { data, ...together([accounts, month, day]) };
}

function Plans({ plans }: { plans: readonly Plan[] }) {
  const users = useUsers(plans);
  return (
    <div className="space-y-4">
      {plans.map((plan) => plan.limits === null && <MissingPlan key={plan.name} plan={plan} />)}
      <LoadFailure query={users} what="the usage of the accounts" />
      <Card flush>
        <Table
          label="Plans"
          id="plans"
          sortable
          columns={planColumns(users)}
          rows={plans}
          keyOf={({ name }) => name}
        />
        <p className="border-t border-line px-4 py-3 text-xs text-ink-3 sm:px-5">
          {counted(plans.length, 'plan')}. Usage is compared with limits per day and month in UTC.
        </p>
      </Card>
    </div>
  );
}

function planColumns(users: Users): Column<Plan>[] {
  const closestOf = ({ name }: Plan) => users.data?.get(name)?.[0];
  return [
    {
      name: 'name',
      heading: 'Plan',
      value: ({ name }) => name,
      cell: (plan) => (
        <>
          <span className="flex items-center gap-2">
            <span className="max-w-40 truncate font-medium sm:max-w-56">{plan.name}</span>
            {plan.default && <Badge tone="accent">Default</Badge>}
            {plan.limits === null && <Badge tone="bad">Missing</Badge>}
          </span>
          {plan.weight !== null && plan.weight !== 1 && (
            <span className="block text-xs text-ink-3">Weight {plan.weight}</span>
          )}
        </>
      ),
    },
    {
      name: 'limits',
      heading: 'Limits',
      value: (plan) => limitsOf(plan).join(', '),
      from: 'md',
      grow: true,
      cell: (plan) => (
        <ul className="py-0.5 whitespace-normal text-ink-2">
          {limitsOf(plan).map((text) => (
            <li key={text} className="break-words">
              {text}
            </li>
          ))}
        </ul>
      ),
    },
    {
      name: 'accounts',
      heading: 'Accounts',
      value: ({ accounts }) => accounts,
      numeric: true,
      cell: ({ name, accounts }) =>
        accounts === 0 ? (
          0
        ) : (
          <TextLink to={`/operator/accounts?plan=${encodeURIComponent(name)}`}>{whole(accounts)}</TextLink>
        ),
    },
    {
      name: 'closest',
      heading: 'Closest to a limit',
      value: (plan) => closestOf(plan)?.closest?.share ?? null,
      cell: (plan) =>
        users.data === undefined ? (
          <Unloaded query={users} className="h-4 w-32" />
        ) : (
          <Closest account={closestOf(plan)} />
        ),
    },
  ];
}

function Closest({ account: user }: { account: AccountOfPlan | undefined }) {
  if (user === undefined || user.closest === null) return <span className="text-ink-3">—</span>;
  const { limit, share } = user.closest;
  return (
    <span className="block max-w-56">
      <span className="flex items-baseline justify-between gap-3">
        <Link to={`/operator/accounts/${user.account.id}`} className="truncate rounded-sm hover:underline">
          {user.account.name}
        </Link>
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

function limitsOf({ limits }: Plan): string[] {
  if (limits === null) return ['Not in the configuration'];
  const { models = {}, ...all } = limits;
  const texts = [
    ...limitTexts(all),
    ...Object.entries(models).flatMap(([model, own]) => limitTexts(own).map((text) => `${model}: ${text}`)),
  ];
  return texts.length === 0 ? ['No limits'] : texts;
}

function limitTexts(limits: Omit<NonNullable<Plan['limits']>, 'models'>): string[] {
  const { requests, tokens } = limits.burst ?? {};
  return [
    ...limitsSet(limits).map(({ limit, bound }) => limitText(limit, bound)),
    ...(requests === undefined ? [] : [`Burst of ${whole(requests)} requests`]),
    ...(tokens === undefined ? [] : [`Burst of ${whole(tokens)} tokens`]),
  ];
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
