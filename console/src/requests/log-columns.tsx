import { Link } from '../components/link.tsx';
import { ModelName } from '../components/model-name.tsx';
import type { Column } from '../components/table.tsx';
import { Time } from '../components/time.tsx';
import { exactMoney, moneyColumn } from '../format/money.ts';
import { whole } from '../format/number.ts';
import { between, duration } from '../format/time.ts';
import { NOTES } from './filters.ts';
import { outcomeOf, RequestStatus, type Request } from './outcome.tsx';

interface LogOptions {
  /** The requests may belong to several accounts. */
  isAll: boolean;
  /** Returns the path of the receipt of a request. */
  receipt: (id: string) => string;
  /** State of the receipts in the history. */
  state?: object;
  /** Never shows the organizations of models. */
  short?: boolean;
}

const tokens = ({ prompt_tokens, completion_tokens }: Request): string =>
  `${whole(prompt_tokens)} → ${whole(completion_tokens)}`;

/** A duration with a minimum width, so that columns do not shift while scrolling. */
function Length({ ms }: { ms: number | null }) {
  return <span className="inline-block min-w-16">{ms === null ? '—' : duration(ms)}</span>;
}

/** What is unusual about a request. */
function Notes({ request: { notes } }: { request: Request }) {
  if (notes.length === 0) return null;
  const title = notes.map((note) => `${NOTES[note].label}: ${NOTES[note].hint}`).join('\n');
  return (
    <span title={title}>
      <span className="sm:hidden">, </span>
      {notes.map((note) => NOTES[note].label).join(', ')}
    </span>
  );
}

/** The columns of the request log. On narrow windows, the first columns also show the most important
 * hidden values. */
export function logColumns(
  requests: readonly Request[],
  { isAll, receipt, state, short = false }: LogOptions,
): Column<Request>[] {
  const amount = moneyColumn(requests.map(({ cost_usd }) => cost_usd));
  const cost = ({ state, cost_usd }: Request): string => (state === 'open' ? '—' : amount(cost_usd));
  const columns: Column<Request>[] = [
    {
      name: 'time',
      heading: 'Time',
      value: ({ started_at: at }) => at,
      cell: (row) => (
        <>
          <Link
            to={receipt(row.id)}
            state={state}
            className="block font-medium whitespace-nowrap text-ink tabular-nums underline-offset-2 hover:underline"
          >
            <Time at={row.started_at} log />
          </Link>
          <span className="block max-w-36 text-xs text-ink-3 md:hidden">
            <ModelName short id={row.model} />
          </span>
        </>
      ),
    },
    {
      name: 'model',
      heading: 'Model, key',
      value: ({ model }) => model,
      from: 'md',
      grow: true,
      cell: (row) => (
        <>
          <ModelName short={short} id={row.model} />
          <span className="block truncate text-xs text-ink-3">{row.key_name ?? row.key_id}</span>
        </>
      ),
    },
    {
      name: 'status',
      heading: 'Status',
      value: (row) => outcomeOf(row).text,
      cell: (row) => (
        <>
          <span className="block w-30 truncate sm:w-40" title={outcomeOf(row).text}>
            <RequestStatus request={row} />
          </span>
          <span className="block w-30 truncate pl-4 text-xs text-ink-3 tabular-nums sm:w-40">
            <span className="sm:hidden">{cost(row)}</span>
            <Notes request={row} />
          </span>
        </>
      ),
    },
    {
      name: 'tokens',
      heading: 'Tokens (in → out)',
      value: tokens,
      numeric: true,
      from: 'xl',
      cell: (row) => <span className="inline-block min-w-28">{tokens(row)}</span>,
    },
    {
      name: 'ttft',
      heading: 'TTFT',
      value: (row) => between(row.started_at, row.first_token_at),
      numeric: true,
      from: 'xl',
      cell: (row) => <Length ms={between(row.started_at, row.first_token_at)} />,
    },
    {
      name: 'duration',
      heading: 'Duration',
      value: (row) => between(row.started_at, row.ended_at),
      numeric: true,
      from: 'sm',
      cell: (row) => <Length ms={between(row.started_at, row.ended_at)} />,
    },
    {
      name: 'cost',
      heading: 'Cost',
      value: ({ cost_usd: usd }) => usd,
      numeric: true,
      from: 'sm',
      cell: (row) => (
        <>
          <span className="inline-block min-w-24" title={exactMoney(row.cost_usd)}>
            {cost(row)}
          </span>
          <span className="block text-xs text-ink-3 xl:hidden">{tokens(row)}</span>
        </>
      ),
    },
  ];
  if (isAll) {
    columns.splice(2, 0, {
      name: 'account',
      heading: 'Account',
      value: ({ account_name: name, account_id: id }) => name ?? id,
      from: 'xl',
      cell: (row) => <span className="block max-w-36 truncate">{row.account_name ?? row.account_id}</span>,
    });
  }
  return columns;
}
