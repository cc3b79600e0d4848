import { Layers, Plus, SearchX } from 'lucide-react';
import { useLocation } from 'wouter';
import type { ItemOf, ResponseOf } from '../../api/client.ts';
import { useAll, useList, useMore, useRead, type QueryState } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Link } from '../../components/link.tsx';
import { Page } from '../../components/page.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { failedChoices, FilterSelect } from '../../components/select.tsx';
import { EmptyState, Loaded, LoadFailure, Unloaded } from '../../components/states.tsx';
import { changedRest, ListFooter, Table, timeColumn, type Column } from '../../components/table.tsx';
import { Tabs } from '../../components/tabs.tsx';
import { DataAge } from '../../components/updated-at.tsx';
import { exactMoney, moneyColumn } from '../../format/money.ts';
import { useHrefWithAccount } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';
import { AccountState, createAccount, PlanName, STATUS_LABELS, type Account } from './account-changes.tsx';
import { UsersList } from './users-list.tsx';

type View = 'accounts' | 'users';

/** Accounts and users. */
export default function AccountsPage() {
  const [query, change] = useQueryState();
  const [, navigate] = useLocation();
  const create = async () => {
    const created = await createAccount();
    if (created !== undefined) navigate(`/operator/accounts/${created.id}?invite=owner`);
  };
  const view: View = query.get('tab') === 'users' ? 'users' : 'accounts';
  return (
    <Page
      title="Accounts"
      hint="Accounts own API keys and have a plan. Users are members of accounts."
      actions={
        <>
          <DataAge operations={['listAccounts', 'listUsers', 'readUsage']} />
          <Button kind="primary" icon={<Plus />} onClick={() => void create()}>
            Create account
          </Button>
        </>
      }
    >
      <Tabs<View>
        label="Accounts and users"
        value={view}
        onChange={(chosen) =>
          change({ tab: chosen === 'users' ? 'users' : null, q: null, status: null, plan: null })
        }
        tabs={[
          { value: 'accounts', label: 'Accounts', content: <AccountsList onNew={() => void create()} /> },
          { value: 'users', label: 'Users', content: <UsersList /> },
        ]}
      />
    </Page>
  );
}

/** Maximum page size of the API. Search runs in the browser. */
const PAGE = 1000;

/** All accounts with their cost this month. */
function AccountsList({ onNew }: { onNew: () => void }) {
  const accounts = useList('listAccounts', { query: { limit: PAGE } });
  const usage = useAll('readUsage', { query: { by: 'account' } });
  const plans = useRead('listPlans', undefined);
  const [query, change] = useQueryState();
  const [, navigate] = useLocation();
  const hrefOf = useHrefWithAccount();
  const defaultPlan = plans.data?.data.find((plan) => plan.default)?.name;
  const wanted = { text: query.get('q') ?? '', status: query.get('status'), plan: query.get('plan') };
  const narrowed = wanted.text !== '' || wanted.status !== null || wanted.plan !== null;
  // The accounts on the default plan are not known before the plans are.
  const needsPlans = wanted.plan !== null && plans.data === undefined;
  // Filters apply to all accounts, so all of them are loaded.
  useMore(narrowed, accounts);
  const clear = () => change({ q: null, status: null, plan: null });
  return (
    <div className="mt-4 space-y-4">
      {accounts.data !== undefined && <LoadFailure query={usage} what="the cost of the accounts" />}
      <Card flush>
        <Filters plans={plans} />
        {needsPlans ? (
          <Loaded query={plans}>{() => null}</Loaded>
        ) : (
          <Loaded
            query={accounts}
            empty={
              <EmptyState
                icon={Layers}
                title="No accounts yet"
                action={<Button onClick={onNew}>Create account</Button>}
              >
                An account owns API keys. Its plan limits their combined usage.
              </EmptyState>
            }
          >
            {(loaded) => {
              const shown = loaded.filter((account) => matches(account, wanted, defaultPlan));
              if (shown.length === 0 && !accounts.hasMore) {
                return (
                  <EmptyState
                    icon={SearchX}
                    title="No matching accounts"
                    action={<Button onClick={clear}>Clear filters</Button>}
                  />
                );
              }
              return (
                <>
                  <Table
                    label="Accounts"
                    id="accounts"
                    sortable
                    rest={changedRest(accounts, (all) =>
                      all.filter((one) => matches(one, wanted, defaultPlan)),
                    )}
                    columns={accountColumns(defaultPlan, usage)}
                    rows={shown}
                    keyOf={({ id }) => id}
                    onOpen={({ id }) => navigate(hrefOf(`/operator/accounts/${id}`))}
                  />
                  <ListFooter
                    shown={shown.length}
                    what={shown.length === 1 ? 'account' : 'accounts'}
                    rest={accounts}
                  />
                </>
              );
            }}
          </Loaded>
        )}
      </Card>
    </div>
  );
}

interface Wanted {
  text: string;
  status: string | null;
  plan: string | null;
}

function matches(account: Account, { text, status, plan }: Wanted, defaultPlan: string | undefined): boolean {
  if (status !== null && account.status !== status) return false;
  if (plan !== null && (account.plan ?? defaultPlan) !== plan) return false;
  const words = text.trim().toLowerCase();
  return account.name.toLowerCase().includes(words) || account.id.includes(words);
}

function Filters({ plans }: { plans: QueryState<ResponseOf<'listPlans'>> }) {
  const [query, change] = useQueryState();
  const plan = query.get('plan');
  const known = plans.data?.data.map(({ name }) => name) ?? [];
  const names = plan === null || known.includes(plan) ? known : [plan, ...known];
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-line p-3 sm:px-5">
      <SearchField
        label="Search by name or ID"
        className="w-full sm:w-64"
        value={query.get('q') ?? ''}
        onChange={(q) => change({ q }, { replace: true })}
      />
      <FilterSelect
        label="Status"
        any="Any status"
        value={query.get('status')}
        choices={Object.entries(STATUS_LABELS).map(([value, label]) => ({ value, label }))}
        onChange={(status) => change({ status })}
      />
      <FilterSelect
        label="Plan"
        any="Any plan"
        value={plan}
        choices={[
          ...names.map((name) => ({ value: name, label: name })),
          ...failedChoices(plans, 'the plans'),
        ]}
        onChange={(name) => change({ plan: name })}
      />
    </div>
  );
}

/** The columns of the list of accounts. */
function accountColumns(
  defaultPlan: string | undefined,
  usage: QueryState<readonly ItemOf<'readUsage'>[]>,
): Column<Account>[] {
  const costs = new Map(usage.data?.map((row) => [row.account_id, row.cost_usd]));
  const amount = moneyColumn(costs.values());
  return [
    {
      name: 'account',
      heading: 'Account',
      value: ({ name }) => name,
      grow: true,
      cell: (account) => <Name account={account} />,
    },
    {
      name: 'status',
      heading: 'Status',
      value: ({ status }) => status,
      from: 'sm',
      cell: ({ status }) => <AccountState status={status} />,
    },
    {
      name: 'plan',
      heading: 'Plan',
      value: ({ plan }) => plan ?? defaultPlan ?? null,
      from: 'md',
      cell: ({ plan }) => <PlanName plan={plan} defaultPlan={defaultPlan} />,
    },
    timeColumn({ name: 'created', heading: 'Created', from: 'lg' }, ({ created_at: at }) => at),
    {
      name: 'cost',
      heading: 'Cost this month',
      value: ({ id }) => costs.get(id) ?? '0',
      numeric: true,
      cell: ({ id }) => {
        const usd = costs.get(id) ?? '0';
        if (usage.data === undefined) return <Unloaded query={usage} className="ml-auto h-4 w-12" />;
        return <span title={exactMoney(usd)}>{amount(usd)}</span>;
      },
    },
  ];
}

function Name({ account: { id, name, status } }: { account: Account }) {
  return (
    <>
      <Link to={`/operator/accounts/${id}`} className="block max-w-full truncate font-medium hover:underline">
        {name}
      </Link>
      <span className="flex items-center gap-2 text-xs">
        <span className="sm:hidden">
          <AccountState status={status} />
        </span>
        <span className="truncate font-mono text-2xs text-ink-3">{id}</span>
      </span>
    </>
  );
}
