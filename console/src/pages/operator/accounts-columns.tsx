import type { ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { Skeleton } from '../../components/states.tsx';
import type { Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { exactMoney, moneyColumn } from '../../format/money.ts';
import { compact, whole } from '../../format/number.ts';
import { Link } from '../../components/link.tsx';
import { AccountState, PlanName, type Account } from './account-labels.tsx';

type Usage = ItemOf<'readUsage'>;

interface ColumnData {
  /** Usage of each account this month; accounts without usage are missing. */
  used: ReadonlyMap<string | null, Usage>;
  isLoaded: boolean;
  /** Name of the default plan. */
  defaultPlan: string | undefined;
}

/** The columns of the list of accounts. */
export function accountColumns({ used, isLoaded, defaultPlan }: ColumnData): Column<Account>[] {
  const amount = moneyColumn([...used.values()].map((usage) => usage.cost_usd));
  const cost = (usd: string) => <span title={exactMoney(usd)}>{amount(usd)}</span>;
  const figure = (account: Account, write: (usage: Usage | undefined) => ReactNode): ReactNode =>
    isLoaded ? write(used.get(account.id)) : <Skeleton className="ml-auto h-4 w-12" />;
  return [
    { name: 'account', heading: 'Account', grow: true, cell: (account) => <Name account={account} /> },
    { name: 'status', heading: 'Status', from: 'sm', cell: ({ status }) => <AccountState status={status} /> },
    {
      name: 'plan',
      heading: 'Plan',
      from: 'md',
      cell: ({ plan }) => <PlanName plan={plan} defaultPlan={defaultPlan} />,
    },
    {
      name: 'created',
      heading: 'Created',
      from: 'lg',
      cell: ({ created_at: at }) => <Time at={at} relative />,
    },
    {
      name: 'requests',
      heading: 'Requests',
      numeric: true,
      from: 'lg',
      cell: (account) => figure(account, (usage) => whole(usage?.requests ?? 0)),
    },
    {
      name: 'tokens',
      heading: 'Tokens',
      numeric: true,
      from: 'md',
      cell: (account) => figure(account, tokens),
    },
    {
      name: 'cost',
      heading: 'Cost this month',
      numeric: true,
      cell: (account) => figure(account, (usage) => cost(usage?.cost_usd ?? '0')),
    },
  ];
}

function tokens(usage: Usage | undefined): ReactNode {
  const count = usage === undefined ? 0 : usage.prompt_tokens + usage.completion_tokens;
  return <span title={whole(count)}>{compact(count)}</span>;
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
