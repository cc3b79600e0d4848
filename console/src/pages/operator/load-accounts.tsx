import { Users } from 'lucide-react';
import type { ResponseOf } from '../../api/client.ts';
import { Card } from '../../components/card.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Table, type Column } from '../../components/table.tsx';
import { oneDecimal, whole } from '../../format/number.ts';
import { TextLink } from '../../components/link.tsx';

type AccountLoad = ResponseOf<'readLoad'>['accounts'][number];

const COLUMNS: readonly Column<AccountLoad>[] = [
  {
    name: 'account',
    heading: 'Account',
    grow: true,
    cell: ({ account_id: id, account_name: name, model }) => (
      <>
        <span className="block truncate">
          <TextLink to={`/operator/accounts/${id}`}>{name ?? id}</TextLink>
        </span>
        <span className="block truncate text-xs text-ink-3 md:hidden" title={model}>
          {model}
        </span>
      </>
    ),
  },
  {
    name: 'model',
    heading: 'Model',
    from: 'md',
    cell: ({ model }) => (
      <span className="block truncate" title={model}>
        {model}
      </span>
    ),
  },
  {
    name: 'weight',
    heading: 'Weight',
    numeric: true,
    from: 'md',
    cell: ({ weight }) => (Number.isInteger(weight) ? whole(weight) : oneDecimal(weight)),
  },
  { name: 'running', heading: 'Running', numeric: true, cell: ({ running }) => whole(running) },
  { name: 'waiting', heading: 'Waiting', numeric: true, cell: ({ waiting }) => whole(waiting) },
];

/** The accounts that use the models now. */
export function LoadAccounts({ accounts }: { accounts: readonly AccountLoad[] }) {
  return (
    <Card
      title="Accounts"
      hint="Accounts with running or waiting requests. When a model is busy, accounts share it in proportion to the weights of their plans."
      flush
    >
      {accounts.length === 0 ? (
        <EmptyState icon={Users} title="No requests">
          No account has running or waiting requests.
        </EmptyState>
      ) : (
        <Table
          label="Accounts"
          columns={COLUMNS}
          rows={accounts}
          keyOf={({ model, account_id: id }) => `${model} ${id}`}
        />
      )}
    </Card>
  );
}
