import { useState } from 'react';
import { useRead } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { Segmented } from '../../components/choices.tsx';
import { TextLink } from '../../components/link.tsx';
import { Loaded, SkeletonRows } from '../../components/states.tsx';
import { ListFooter, numberColumn, Table, type Column } from '../../components/table.tsx';
import { exactMoney, moneyColumn } from '../../format/money.ts';
import { compact, fixed, percentColumn, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import type { Filters } from '../../requests/filters.ts';
import type { Scope } from '../../state/account.ts';
import { MEASURES, type Measure, type Sums } from './buckets.ts';
import { SPLITS, splitsOf, type Selection, type Split } from './selection.ts';
import { nameOf, partOf, usageQuery } from './use-usage.ts';

interface BreakdownProps {
  scope: Scope;
  selection: Selection;
  /** Totals. */
  all: Sums;
  onSplit: (split: Split) => void;
  /** Returns the path of the request log with these filters added. */
  linkOf: (filters: Partial<Filters>, scope?: Record<string, string>) => string;
}

/** Usage by model, key, client, account or status, with links to the requests. */
export function Breakdown(props: BreakdownProps) {
  const { scope, selection, onSplit } = props;
  return (
    <Card
      flush
      title="Breakdown"
      hint="Select a name to view its requests"
      actions={
        <Segmented
          label="Group breakdown by"
          value={selection.breakdown}
          choices={splitsOf(SPLITS, scope.all).map((value) => ({ value, label: SPLITS[value] }))}
          onChange={onSplit}
        />
      }
    >
      {selection.breakdown === 'status' ? (
        <ByStatus {...props} />
      ) : (
        <ByPart {...props} key={selection.breakdown} by={selection.breakdown} />
      )}
    </Card>
  );
}

const STATUS_ROWS: readonly { status: string; label: string; measure: Measure }[] = [
  { status: 'completed', label: 'Completed', measure: 'completed' },
  { status: 'error', label: 'Errors', measure: 'errors' },
  { status: 'client_disconnected', label: 'Client disconnected', measure: 'disconnected' },
  { status: 'interrupted', label: 'Interrupted', measure: 'interrupted' },
];

function ByStatus({ all, linkOf }: BreakdownProps) {
  return (
    <Table
      label="Usage by status"
      columns={statusColumns(all, linkOf)}
      rows={STATUS_ROWS}
      keyOf={({ status }) => status}
    />
  );
}

function statusColumns(all: Sums, linkOf: BreakdownProps['linkOf']): Column<(typeof STATUS_ROWS)[number]>[] {
  return [
    {
      name: 'status',
      heading: 'Status',
      grow: true,
      cell: ({ status, label }) => <TextLink to={linkOf({ status })}>{label}</TextLink>,
    },
    numberColumn({ name: 'requests', heading: 'Requests' }, ({ measure }) => MEASURES[measure](all)),
    {
      name: 'share',
      heading: 'Share',
      numeric: true,
      cell: ({ measure }) => <Share part={MEASURES[measure](all)} total={all.requests} />,
    },
  ];
}

/** Rows of the table, and after "Load more". */
const ROWS = 100;
const MAX_ROWS = 1000;

function ByPart({ scope, selection, all, by, linkOf }: BreakdownProps & { by: Exclude<Split, 'status'> }) {
  const [top, setTop] = useState(ROWS);
  // One more row shows that there are more.
  const query = { ...usageQuery(scope, selection, selection.days), by, top: Math.min(top + 1, MAX_ROWS) };
  const sums = useRead('readUsage', { query }, { keep: true });
  const found = sums.data?.data ?? [];
  const rows = found.slice(0, top);
  const what = `${SPLITS[by].toLowerCase()}${rows.length === 1 ? '' : 's'}`;
  const link = (id: string) => {
    // Requests whose client was not recorded have no filter.
    if (by === 'client' && id === '') return null;
    return by === 'account' ? linkOf({}, { account: id }) : linkOf({ [by]: id });
  };
  return (
    <Loaded query={sums} loading={<SkeletonRows rows={4} />}>
      {() => (
        <>
          <Table
            label={`Usage by ${SPLITS[by].toLowerCase()}`}
            id={`usage-by-${by}`}
            sortable={found.length <= ROWS || top === MAX_ROWS}
            columns={partColumns(all, by, rows, link)}
            rows={rows}
            keyOf={(row) => partOf(row, by)}
          />
          {found.length > ROWS && (
            <ListFooter
              shown={rows.length}
              what={rows.length === MAX_ROWS ? `${what} with the most tokens` : what}
              rest={{
                hasMore: top < MAX_ROWS,
                isReadingMore: sums.isFetching,
                moreError: null,
                more: () => setTop(MAX_ROWS),
              }}
            />
          )}
        </>
      )}
    </Loaded>
  );
}

function partColumns(
  all: Sums,
  by: Exclude<Split, 'status'>,
  rows: readonly Sums[],
  linkOf: (id: string) => string | null,
): Column<Sums>[] {
  const tokens = MEASURES.tokens;
  const cost = moneyColumn(rows.map((row) => row.cost_usd));
  return [
    {
      name: 'part',
      heading: SPLITS[by],
      value: (row) => nameOf(row, by),
      grow: true,
      cell: (row) => (
        <>
          <span className="block truncate" title={nameOf(row, by)}>
            <Name to={linkOf(partOf(row, by))}>{nameOf(row, by)}</Name>
          </span>
          <span className="block truncate text-xs text-ink-3 sm:hidden">
            {compact(row.requests)} requests, {compact(tokens(row))} tokens
          </span>
        </>
      ),
    },
    numberColumn({ name: 'requests', heading: 'Requests', from: 'sm' }, ({ requests }) => requests),
    {
      name: 'errors',
      heading: 'Error rate',
      value: ({ errors, requests }) => (requests === 0 ? null : errors / requests),
      numeric: true,
      from: 'lg',
      cell: (row) => <Percentage part={row.errors} total={row.requests} />,
    },
    {
      name: 'tokens',
      heading: 'Tokens',
      value: tokens,
      numeric: true,
      from: 'sm',
      cell: (row) => <span title={whole(tokens(row))}>{compact(tokens(row))}</span>,
    },
    {
      name: 'share',
      heading: 'Share of tokens',
      value: (row) => (tokens(all) === 0 ? null : tokens(row) / tokens(all)),
      numeric: true,
      from: 'md',
      cell: (row) => <Share part={tokens(row)} total={tokens(all)} />,
    },
    ...(by === 'client' ? [] : [TTFT]),
    // Throughput percentiles over several models are meaningless.
    ...(by === 'model' ? SPEED : MISSED),
    {
      name: 'cost',
      heading: 'Cost',
      value: ({ cost_usd: usd }) => usd,
      numeric: true,
      cell: (row) => <span title={exactMoney(row.cost_usd)}>{cost(row.cost_usd)}</span>,
    },
  ];
}

/** The name of a group, with a link to its requests. */
function Name({ to, children }: { to: string | null; children: string }) {
  return to === null ? children : <TextLink to={to}>{children}</TextLink>;
}

const TTFT = numberColumn<Sums>(
  { name: 'ttft', heading: 'TTFT (p50)', from: 'lg' },
  ({ ttft_ms: ttft }) => ttft?.p50 ?? null,
  duration,
);

const SPEED = (['p50', 'p5'] as const).map((share) =>
  numberColumn<Sums>(
    { name: `speed-${share}`, heading: `Tokens/s (${share})`, from: 'xl' },
    ({ tokens_per_second: speed }) => speed?.[share] ?? null,
    (speed) => fixed(speed, 1),
  ),
);

const MISSED: readonly Column<Sums>[] = [
  {
    name: 'missed',
    heading: 'Missed in cache',
    value: ({ cache_miss_tokens: missed }) => missed,
    numeric: true,
    from: 'xl',
    cell: ({ cache_miss_tokens: missed, prompt_tokens: prompt }) => (
      <span title={`${whole(missed)} of ${whole(prompt)} prompt tokens`}>{compact(missed)}</span>
    ),
  },
];

/** A share as a number and as a bar. */
function Share({ part, total }: { part: number; total: number }) {
  const share = total === 0 ? 0 : part / total;
  return (
    <span className="inline-flex items-center justify-end gap-2">
      <span className="hidden h-1.5 w-16 overflow-hidden rounded-full bg-sunken sm:block" aria-hidden="true">
        <span className="block h-full rounded-full bg-accent" style={{ width: `${share * 100}%` }} />
      </span>
      <span className="w-14">
        <Percentage part={part} total={total} />
      </span>
    </span>
  );
}

/** A share as a percentage, exact on hover. */
function Percentage({ part, total }: { part: number; total: number }) {
  if (total === 0) return '—';
  return <span title={`${whole(part)} of ${whole(total)}`}>{percentColumn(part / total)}</span>;
}
