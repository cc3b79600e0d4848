import { Wallet } from 'lucide-react';
import { useMemo } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAll, useRead, type QueryState } from '../../api/queries.ts';
import { Sparkline } from '../../charts/sparkline.tsx';
import { Card } from '../../components/card.tsx';
import { Segmented } from '../../components/choices.tsx';
import { addDays, countDays, isDay, monthOf, useToday, type Days } from '../../components/date-range-days.ts';
import { TextLink } from '../../components/link.tsx';
import { NoAccount } from '../../components/no-account.tsx';
import { Page } from '../../components/page.tsx';
import { Select } from '../../components/select.tsx';
import { Loaded, LoadFailure, Skeleton, Unloaded } from '../../components/states.tsx';
import { numberColumn, Table, type Column } from '../../components/table.tsx';
import { DataAge } from '../../components/updated-at.tsx';
import { UsageFigures } from '../../components/usage-figures.tsx';
import { exactMoney, inexact, money, moneyColumn } from '../../format/money.ts';
import { compact, counted, percentColumn } from '../../format/number.ts';
import { utcMonth, utcTick } from '../../format/time.ts';
import { GROUP_NAMES, groupName, groupOf, GROUPS, type Group } from '../../format/usage-groups.ts';
import { requestsPath } from '../../requests/filters.ts';
import { NoRequests } from '../../requests/no-requests.tsx';
import { scopeInQuery, useServiceScope, type Scope } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';
import { boundOf, BudgetCell, useBudgets } from './budget.tsx';

type Usage = ItemOf<'readUsage'>;

/** Months that can be selected. */
const MONTHS = 12;

/** The cost of a month by key, tag, member, model, client or account, with the budgets of keys and accounts. */
export default function SpendPage() {
  const scope = useServiceScope();
  const [query, change] = useQueryState();
  const today = useToday();
  if (scope.account === null && !scope.all) return <NoAccount title="Spend" icon={Wallet} />;
  const asked = `${query.get('month')}-01`;
  const now = monthOf(today);
  const from = isDay(asked) && asked <= today ? asked : now;
  const months = Array.from({ length: MONTHS }, (_, index) => monthOf(today, -index));
  if (!months.includes(from)) months.push(from);
  const groups = GROUP_NAMES.filter((group) => group !== 'account' || scope.all);
  const by = groups.find((group) => group === query.get('by')) ?? 'key';
  return (
    <Page
      title="Spend"
      hint={`Cost of ${scope.all ? 'all accounts' : 'the account'}, and how much of the budgets is used. Months and days are in UTC.`}
      actions={
        <>
          <DataAge operations={['readUsage', 'listKeys', 'listAccounts']} />
          <Select
            label="Month"
            value={from}
            choices={months.map((month) => ({ value: month, label: utcMonth(month) }))}
            onChange={(month) => change({ month: month === now ? null : month.slice(0, 7) })}
          />
        </>
      }
    >
      <div className="mb-4 overflow-x-auto">
        <Segmented
          label="Group by"
          value={by}
          choices={groups.map((value) => ({ value, label: GROUPS[value].label }))}
          onChange={(group) => change({ by: group === 'key' ? null : group, sort: null })}
        />
      </div>
      <Spend
        key={`${by} ${from}`}
        {...{ scope, by }}
        days={{ from, to: monthOf(from, 1) }}
        hasBudgets={from === now && (by === 'key' || by === 'account')}
      />
    </Page>
  );
}

interface SpendProps {
  scope: Scope;
  by: Group;
  /** The days of the month. */
  days: Days;
  /** Budgets are those of now, so earlier months do not show them. */
  hasBudgets: boolean;
}

const EVERY_MS = 60_000;
/** Maximum rows by day that are loaded. */
const MAX_DAY_ROWS = 20_000;

function Spend({ scope, by, days, hasBudgets }: SpendProps) {
  const query = { ...scope.query, ...days };
  const all = useRead('readUsage', { query }, { everyMs: EVERY_MS });
  // Keys of several accounts can have the same name, so they are shown with their account.
  const groups = useAll(
    'readUsage',
    { query: { ...query, by: by === 'key' && scope.all ? 'key,account' : by } },
    { everyMs: EVERY_MS },
  );
  const rows = useMemo(
    () =>
      groups.data?.toSorted((a, b) => inexact(b.cost_usd) - inexact(a.cost_usd) || tokensOf(b) - tokensOf(a)),
    [groups.data],
  );
  const hasDays = rows !== undefined && rows.length * countDays(days) <= MAX_DAY_ROWS;
  const byDay = useAll('readUsage', { query: { ...query, by: `day,${by}` } }, { enabled: hasDays });
  const costs = useMemo(() => byDay.data && costsOf(byDay.data, by, days.from), [byDay.data, by, days.from]);
  const budgets = useBudgets(scope, hasBudgets ? by : null);
  const [total] = all.data?.data ?? [];
  if (total?.requests === 0)
    return (
      <Card>
        <NoRequests icon={Wallet} title="No requests in this month">
          Cost appears here within a minute after a request finishes.
        </NoRequests>
      </Card>
    );
  return (
    <div className="space-y-4">
      <Loaded card query={all} loading={<Skeleton className="h-22 w-full" />}>
        {({ data: [sums] }) => (
          <Card>
            <UsageFigures usage={sums} className="sm:grid-cols-4" />
          </Card>
        )}
      </Loaded>
      <LoadFailure query={byDay} what="the cost of each day" />
      {hasBudgets && <LoadFailure query={budgets} what="the budgets" />}
      <Card flush>
        <Loaded query={{ ...groups, data: rows }}>
          {(loaded) => (
            <>
              <Table
                label={`Spend by ${GROUPS[by].label.toLowerCase()}`}
                id={`spend-by-${by}`}
                sortable
                columns={columnsOf({
                  scope,
                  by,
                  days,
                  total,
                  rows: loaded,
                  costs: hasDays ? { ...byDay, data: costs } : null,
                  budgets: hasBudgets ? budgets : null,
                })}
                rows={loaded}
                keyOf={(row) => groupOf(row, by)}
              />
              <p
                role="status"
                className="border-t border-line px-4 py-3 text-xs text-ink-3 tabular-nums sm:px-5"
              >
                {counted(loaded.length, GROUPS[by].label.toLowerCase())}.{' '}
                {NOTES[by] ?? 'Running requests are not included.'}
              </p>
            </>
          )}
        </Loaded>
      </Card>
    </div>
  );
}

/** Notes below the table. */
const NOTES: { readonly [By in Group]?: string } = {
  tag: 'The cost of a key with several tags is in the row of each.',
  member: 'The cost of a key is that of the user who created it.',
};

const tokensOf = (row: Usage): number => row.prompt_tokens + row.completion_tokens;

/** Returns the cost of each day of a month by group, inexact. */
function costsOf(rows: readonly Usage[], by: Group, from: string): ReadonlyMap<string, number[]> {
  const costs = new Map<string, number[]>();
  for (const row of rows) {
    const id = groupOf(row, by);
    const ofGroup =
      costs.get(id) ?? Array.from({ length: countDays({ from, to: monthOf(from, 1) }) }, () => 0);
    ofGroup[countDays({ from, to: row.day ?? from })] = inexact(row.cost_usd);
    costs.set(id, ofGroup);
  }
  return costs;
}

interface ColumnData extends Omit<SpendProps, 'hasBudgets'> {
  /** Undefined: not loaded yet. */
  total: Usage | undefined;
  rows: readonly Usage[];
  /** Null: too many to draw. */
  costs: QueryState<ReadonlyMap<string, number[]>> | null;
  /** Null: the groups have none. */
  budgets: ReturnType<typeof useBudgets> | null;
}

function columnsOf({ scope, by, days, total, rows, costs, budgets }: ColumnData): Column<Usage>[] {
  const cost = moneyColumn(rows.map((row) => row.cost_usd));
  const all = total === undefined ? 0 : inexact(total.cost_usd);
  const shareOf = (row: Usage) => (all === 0 ? null : inexact(row.cost_usd) / all);
  const linkOf = (id: string): string | null => {
    if (by === 'member' || id === '') return null;
    // The list of keys is that of one account.
    if (by === 'tag') return scope.all ? null : `/keys?tag=${encodeURIComponent(id)}`;
    return by === 'account'
      ? requestsPath(days, { account: id })
      : requestsPath({ ...days, [by]: id }, scopeInQuery(scope));
  };
  return [
    {
      name: 'group',
      heading: GROUPS[by].label,
      value: (row) => groupName(row, by),
      grow: true,
      cell: (row) => {
        const [name, to] = [groupName(row, by), linkOf(groupOf(row, by))];
        return (
          <>
            {to === null ? (
              <span className="block truncate">{name}</span>
            ) : (
              <TextLink to={to} className="block truncate" title={name}>
                {name}
              </TextLink>
            )}
            {by === 'key' && row.account_name !== null && (
              <span className="block truncate text-xs text-ink-3">{row.account_name}</span>
            )}
            {budgets !== null && (
              <span className="block text-xs text-ink-3 tabular-nums sm:hidden">{cost(row.cost_usd)}</span>
            )}
          </>
        );
      },
    },
    numberColumn({ name: 'requests', heading: 'Requests', from: 'lg' }, ({ requests }) => requests),
    numberColumn({ name: 'tokens', heading: 'Tokens', from: 'lg' }, tokensOf, compact),
    numberColumn(
      { name: 'errors', heading: 'Error rate', from: 'chosen' },
      ({ errors, requests }) => (requests === 0 ? null : errors / requests),
      percentColumn,
    ),
    numberColumn(
      { name: 'missed', heading: 'Missed in cache', from: 'chosen' },
      ({ cache_miss_tokens: missed }) => missed,
      compact,
    ),
    ...(costs === null ? [] : [daysColumn(costs, by, days)]),
    {
      name: 'share',
      heading: 'Share',
      value: shareOf,
      numeric: true,
      from: 'sm',
      cell: (row) => <Share share={shareOf(row)} />,
    },
    {
      name: 'cost',
      heading: 'Cost',
      value: ({ cost_usd: usd }) => usd,
      numeric: true,
      // A phone has no room for it beside a budget.
      ...(budgets !== null && { from: 'sm' }),
      cell: ({ cost_usd: usd }) => <span title={exactMoney(usd)}>{cost(usd)}</span>,
    },
    ...(budgets === null ? [] : [budgetColumn(budgets, by)]),
  ];
}

function daysColumn(costs: NonNullable<ColumnData['costs']>, by: Group, { from }: Days): Column<Usage> {
  return {
    name: 'days',
    heading: 'Cost by day',
    from: 'md',
    cell: (row) => {
      if (costs.data === undefined) return <Unloaded query={costs} className="h-4 w-24" />;
      const values = costs.data.get(groupOf(row, by)) ?? [];
      const most = Math.max(...values, 0);
      const day = utcTick('day')(Date.parse(addDays(from, values.indexOf(most))) / 1000);
      const label = most === 0 ? 'No cost' : `At most ${money(most.toFixed(12))} a day, on ${day}`;
      return <Sparkline values={values} label={label} />;
    },
  };
}

function budgetColumn(budgets: NonNullable<ColumnData['budgets']>, by: Group): Column<Usage> {
  const budgetOf = (row: Usage) => budgets.data?.get(groupOf(row, by));
  return {
    name: 'budget',
    heading: 'Monthly budget',
    value: (row) => boundOf(budgetOf(row)) ?? null,
    cell: (row) =>
      budgets.data === undefined ? (
        <Unloaded query={budgets} className="h-4 w-28" />
      ) : (
        <BudgetCell budget={budgetOf(row)} used={row.cost_usd} />
      ),
  };
}

/** A share as a bar and a number; null: of nothing. */
function Share({ share }: { share: number | null }) {
  if (share === null) return '—';
  return (
    <span className="inline-flex items-center justify-end gap-2 align-middle">
      <span className="h-1.5 w-16 overflow-hidden rounded-full bg-sunken" aria-hidden="true">
        <span className="block h-full rounded-full bg-accent" style={{ width: `${share * 100}%` }} />
      </span>
      <span className="w-14">{percentColumn(share)}</span>
    </span>
  );
}
