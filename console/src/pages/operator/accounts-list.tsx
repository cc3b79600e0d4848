import { Layers, SearchX } from 'lucide-react';
import { useEffect } from 'react';
import { useList, useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { Select } from '../../components/select.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState } from '../../components/states.tsx';
import { ListFooter, Table } from '../../components/table.tsx';
import { useLocation } from 'wouter';
import { useHrefWithAccount } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';
import { STATUS_LABELS, type Account } from './account-labels.tsx';
import { accountColumns } from './accounts-columns.tsx';

/** Maximum page size of the API. Search runs in the browser. */
const PAGE = 1000;
const ANY = 'any';

/** All accounts with their usage this month. */
export function AccountsList({ onNew }: { onNew: () => void }) {
  const accounts = useList('listAccounts', { query: { limit: PAGE } });
  const usage = useRead('readUsage', { query: { by: 'account' } });
  const plans = useRead('listPlans', undefined);
  const [query, change] = useQueryState();
  const [, navigate] = useLocation();
  const hrefOf = useHrefWithAccount();
  const defaultPlan = plans.data?.data.find((plan) => plan.default)?.name;
  const wanted = { text: query.get('q') ?? '', status: query.get('status'), plan: query.get('plan') };
  const narrowed = wanted.text !== '' || wanted.status !== null || wanted.plan !== null;
  const { hasMore, isReadingMore, more } = accounts;
  useEffect(() => {
    // Filters apply to all accounts, so all of them are loaded.
    if (narrowed && hasMore && !isReadingMore) more();
  });
  const used = new Map(usage.data?.data.map((row) => [row.account_id, row]));
  const clear = () => change({ q: null, status: null, plan: null });
  return (
    <Card flush className="mt-4">
      <Filters plans={plans.data?.data.map(({ name }) => name) ?? []} />
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
          if (shown.length === 0 && !hasMore) {
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
                columns={accountColumns({ used, defaultPlan, isLoaded: usage.data !== undefined })}
                rows={shown}
                keyOf={({ id }) => id}
                onOpen={({ id }) => navigate(hrefOf(`/operator/accounts/${id}`))}
              />
              <ListFooter
                shown={shown.length}
                what={shown.length === 1 ? 'account' : 'accounts'}
                hasMore={hasMore}
                busy={isReadingMore}
                onMore={more}
              />
            </>
          );
        }}
      </Loaded>
    </Card>
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

function Filters({ plans }: { plans: readonly string[] }) {
  const [query, change] = useQueryState();
  const plan = query.get('plan');
  const names = plan === null || plans.includes(plan) ? plans : [plan, ...plans];
  return (
    <div className="flex flex-wrap items-center gap-2 border-b border-line p-3 sm:px-5">
      <SearchField
        label="Search by name or ID"
        className="w-full sm:w-64"
        value={query.get('q') ?? ''}
        onChange={(q) => change({ q }, { replace: true })}
      />
      <Select
        small
        label="Status"
        value={query.get('status') ?? ANY}
        choices={[
          { value: ANY, label: 'Any status' },
          ...Object.entries(STATUS_LABELS).map(([value, label]) => ({ value, label })),
        ]}
        onChange={(status) => change({ status: status === ANY ? null : status })}
      />
      <Select
        small
        label="Plan"
        value={plan ?? ''}
        choices={[{ value: '', label: 'Any plan' }, ...names.map((name) => ({ value: name, label: name }))]}
        onChange={(name) => change({ plan: name })}
      />
    </div>
  );
}
