import { ShieldCheck } from 'lucide-react';
import type { ItemOf } from '../../api/client.ts';
import { useRead } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { Select } from '../../components/select.tsx';
import { EmptyState, Loaded } from '../../components/states.tsx';
import { numberColumn, Table, type Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { UpdatedAt } from '../../components/updated-at.tsx';
import { KeyFilter } from '../../requests/filter-selects.tsx';
import type { Scope } from '../../state/account.ts';
import { useQueryState } from '../../state/url-query.ts';

type Refusal = ItemOf<'listRefusals'>;

const DEFAULT_HOURS = '24';
const HOURS = [
  { value: '1', label: 'Last hour' },
  { value: DEFAULT_HOURS, label: 'Last 24 hours' },
  { value: '168', label: 'Last 7 days' },
];

/** Refetch interval of a live list, in milliseconds. */
const LIVE_MS = 5000;

/** Requests that were refused before they reached a model, by key and error. */
export function Refused({ scope, live }: { scope: Scope; live: boolean }) {
  const [query, change] = useQueryState();
  const key = query.get('key');
  const given = query.get('hours');
  const hours = HOURS.find(({ value }) => value === given)?.value ?? DEFAULT_HOURS;
  const read = useRead(
    'listRefusals',
    { query: { ...scope.query, hours: Number(hours), ...(key !== null && { key_id: key }) } },
    live ? { everyMs: LIVE_MS } : {},
  );
  return (
    <>
      <div className="mb-4 flex flex-wrap items-center gap-2">
        <Select
          label="Time"
          small
          value={hours}
          choices={HOURS}
          onChange={(value) => change({ hours: value === DEFAULT_HOURS ? null : value })}
        />
        <KeyFilter scope={scope} value={key} onChange={(value) => change({ key: value })} />
      </div>
      <Card flush>
        <div className="border-b border-line px-4 py-1 sm:px-5">
          <UpdatedAt
            atMs={read.dataUpdatedAt}
            busy={read.isFetching}
            error={read.error}
            onRefresh={live ? undefined : () => void read.refetch()}
          />
        </div>
        <Loaded query={read}>{({ data }) => <Rows scope={scope} refusals={data} />}</Loaded>
      </Card>
    </>
  );
}

function Rows({ scope, refusals }: { scope: Scope; refusals: readonly Refusal[] }) {
  if (refusals.length === 0) {
    return (
      <EmptyState icon={ShieldCheck} title="No refused requests">
        If a request is refused because of its key, a limit or an invalid field, it is counted here by key and
        error, with the latest message of each error.
      </EmptyState>
    );
  }
  return (
    <Table
      label="Refused requests"
      id="refused-requests"
      sortable
      columns={refusalColumns(scope.all)}
      rows={refusals}
      keyOf={({ account_id, key_id, code, param }) => [account_id, key_id, code, param].join(' ')}
    />
  );
}

/** `isAll`: the rows may belong to several accounts. */
function refusalColumns(isAll: boolean): Column<Refusal>[] {
  const keyName = ({ account_id: owner, key_id: id, key_name: name }: Refusal): string =>
    name ?? id ?? (owner === null ? 'No valid key' : 'All keys');
  const columns: Column<Refusal>[] = [
    {
      name: 'error',
      heading: 'Error',
      value: ({ code, param }) => (param === null ? code : `${code} ${param}`),
      grow: true,
      cell: (row) => (
        <>
          <span className="block font-mono text-xs font-medium wrap-anywhere text-ink">
            {row.param === null ? row.code : `${row.code} · ${row.param}`}
          </span>
          <span className="block text-xs wrap-anywhere text-ink-3">
            <CodeText text={row.message} />
          </span>
          <span className="block truncate text-xs text-ink-3 md:hidden">{keyName(row)}</span>
        </>
      ),
    },
    {
      name: 'key',
      heading: 'Key',
      value: keyName,
      from: 'md',
      cell: (row) => <span className="block max-w-40 truncate">{keyName(row)}</span>,
    },
    numberColumn({ name: 'count', heading: 'Requests' }, ({ count }) => count),
    {
      name: 'last',
      heading: 'Last refused',
      value: ({ last_at: at }) => at,
      from: 'sm',
      cell: ({ last_at: at }) => <Time at={at} log />,
    },
  ];
  if (isAll) {
    columns.splice(2, 0, {
      name: 'account',
      heading: 'Account',
      value: ({ account_name: name, account_id: id }) => name ?? id,
      from: 'xl',
      cell: ({ account_name: name, account_id: id }) => (
        <span className="block max-w-36 truncate">{name ?? id ?? '—'}</span>
      ),
    });
  }
  return columns;
}
