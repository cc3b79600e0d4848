import { Status } from '../../components/badge.tsx';
import { CodeText } from '../../components/code-text.tsx';
import { FoldButton } from '../../components/fold-button.tsx';
import type { FoldRow } from '../../components/fold.ts';
import { Link } from '../../components/link.tsx';
import { ModelName } from '../../components/model-name.tsx';
import { numberColumn, type Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { exactMoney, moneyColumn } from '../../format/money.ts';
import { counted, whole } from '../../format/number.ts';
import { between, duration } from '../../format/time.ts';
import { NOTES } from '../../requests/filters.ts';
import { outcomeOf, RequestStatus, type Request } from '../../requests/outcome.tsx';
import { countOf, refusedKey, type Entry } from './timeline.ts';

/** An entry of the timeline, or a group of adjacent ones with the same error. */
export type TimelineRow = FoldRow<Entry>;

interface TimelineOptions {
  /** The requests may belong to several accounts. */
  isAll: boolean;
  /** Leaves out what has no room beside a receipt. */
  isNarrow: boolean;
  /** Returns the path of the details of an entry. */
  pathOf: (id: string) => string;
  /** How the links change the history. */
  history: { state: object | undefined; replace: boolean };
  isExpanded: (group: readonly Entry[]) => boolean;
  onToggle: (group: readonly Entry[]) => void;
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

const statusOf = ({ request, refusal }: Entry): string =>
  request === null ? [refusal.code, refusal.param ?? []].flat().join(' · ') : outcomeOf(request).text;

const keyOf = ({ request, refusal }: Entry): string =>
  request === null ? refusedKey(refusal) : (request.key_name ?? request.key_id);

const accountOf = ({ request, refusal }: Entry): string => {
  const { account_name: name, account_id: id } = request ?? refusal;
  return name ?? id ?? '—';
};

function TimeCell({ row: { entry, group }, options }: { row: TimelineRow; options: TimelineOptions }) {
  const { pathOf, history, isExpanded, onToggle } = options;
  return (
    <>
      {group === null ? (
        <Link
          to={pathOf(entry.id)}
          {...history}
          className="block font-medium whitespace-nowrap text-ink tabular-nums underline-offset-2 hover:underline"
        >
          <Time at={entry.at} log />
        </Link>
      ) : (
        <FoldButton isExpanded={isExpanded(group)} onClick={() => onToggle(group)}>
          <span className="font-medium">
            <Time at={entry.at} log />
            <span className="sr-only">, {counted(countOf(group), 'request')}</span>
          </span>
        </FoldButton>
      )}
      <span className="block max-w-36 truncate text-xs text-ink-3 md:hidden">
        {entry.request === null ? keyOf(entry) : <ModelName short id={entry.request.model} />}
      </span>
    </>
  );
}

function ModelCell({ entry }: { entry: Entry }) {
  return (
    <>
      {entry.request === null ? (
        <span className="block truncate" title={entry.refusal.message}>
          <CodeText text={entry.refusal.message} />
        </span>
      ) : (
        <ModelName id={entry.request.model} />
      )}
      <span className="block truncate text-xs text-ink-3">{keyOf(entry)}</span>
    </>
  );
}

type WriteCost = (request: Request) => string;

function StatusCell({ row: { entry, group }, cost }: { row: TimelineRow; cost: WriteCost }) {
  return (
    <>
      <span className="block w-30 truncate sm:w-40" title={statusOf(entry)}>
        {entry.request === null ? (
          <Status tone="warn">{statusOf(entry)}</Status>
        ) : (
          <RequestStatus request={entry.request} />
        )}
      </span>
      <span className="block w-30 truncate pl-4 text-xs text-ink-3 tabular-nums sm:w-40">
        {entry.request === null ? (
          `${whole(countOf(group ?? [entry]))} refused`
        ) : group !== null ? (
          counted(group.length, 'request')
        ) : (
          <>
            <span className="sm:hidden">{cost(entry.request)}</span>
            <Notes request={entry.request} />
          </>
        )}
      </span>
    </>
  );
}

/** The columns of the timeline. On narrow windows, the first columns also show the most important hidden values. */
export function timelineColumns(entries: readonly Entry[], options: TimelineOptions): Column<TimelineRow>[] {
  const amount = moneyColumn(entries.flatMap(({ request }) => request?.cost_usd ?? []));
  const cost: WriteCost = ({ state, cost_usd }) => (state === 'open' ? '—' : amount(cost_usd));
  /** A column about single requests. */
  const ofRequest = ({ value, cell, ...column }: Column<Request>): Column<TimelineRow> => ({
    ...column,
    value: ({ entry: { request } }) => (request && value?.(request)) ?? null,
    cell: ({ entry: { request }, group }) =>
      request === null || group !== null ? <span className="text-ink-3">—</span> : cell(request),
  });
  const columns: Column<TimelineRow>[] = [
    {
      name: 'time',
      heading: 'Time',
      value: ({ entry: { at } }) => at,
      cell: (row) => <TimeCell row={row} options={options} />,
    },
    {
      name: 'model',
      heading: 'Model, key',
      value: ({ entry: { request } }) => request && request.model,
      from: 'md',
      grow: true,
      cell: ({ entry }) => <ModelCell entry={entry} />,
    },
    {
      name: 'status',
      heading: 'Status',
      value: ({ entry }) => (entry.request === null ? `refused: ${statusOf(entry)}` : statusOf(entry)),
      cell: (row) => <StatusCell row={row} cost={cost} />,
    },
    ofRequest({
      name: 'tokens',
      heading: 'Tokens (in → out)',
      value: tokens,
      numeric: true,
      from: 'xl',
      cell: (row) => <span className="inline-block min-w-28">{tokens(row)}</span>,
    }),
    ofRequest({
      name: 'ttft',
      heading: 'TTFT',
      value: (row) => between(row.started_at, row.first_token_at),
      numeric: true,
      from: 'xl',
      cell: (row) => <Length ms={between(row.started_at, row.first_token_at)} />,
    }),
    ofRequest({
      name: 'duration',
      heading: 'Duration',
      value: (row) => between(row.started_at, row.ended_at),
      numeric: true,
      from: 'sm',
      cell: (row) => <Length ms={between(row.started_at, row.ended_at)} />,
    }),
    ofRequest({
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
    }),
    numberColumn({ name: 'count', heading: 'Requests', from: 'chosen' }, ({ entry, group }) =>
      countOf(group ?? [entry]),
    ),
  ];
  if (options.isAll) {
    columns.splice(2, 0, {
      name: 'account',
      heading: 'Account',
      value: ({ entry }) => accountOf(entry),
      from: 'xl',
      cell: ({ entry }) => <span className="block max-w-36 truncate">{accountOf(entry)}</span>,
    });
  }
  if (!options.isNarrow) return columns;
  const hasRoom = ({ from }: Column<TimelineRow>) => from === undefined || from === 'md';
  return columns.map((column) => (hasRoom(column) ? column : { ...column, from: 'chosen' }));
}
