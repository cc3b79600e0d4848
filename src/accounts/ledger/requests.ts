import { sql, type Kysely, type SelectQueryBuilder } from 'kysely';
import type { Database } from '../../database/database.ts';
import { firstIdAt } from '../../database/partitions.ts';
import { COLUMNS, type LedgerState } from '../../database/ledger-columns.ts';
import type { Schema } from '../../database/schema.ts';
import { MAX_REQUESTS_PAGE } from '../bounds.ts';
import type { RequestRow } from './request-json.ts';
import { NOTES_SQL, REQUEST_NOTES, type RequestNote } from './request-notes.ts';
import { OUTCOMES, type RequestOutcome } from './roll-ups.ts';

/** Filters for requests. Omitted or null filters match everything. */
export interface RequestFilter {
  accountId?: string | null;
  keyId?: string | null;
  model?: string | null;
  /** Empty: requests whose client is null. */
  client?: string | null;
  state?: LedgerState | null;
  outcome?: RequestOutcome | null;
  /** First digit of the HTTP status. */
  statusClass?: 2 | 3 | 4 | 5 | null;
  /** Error code, or `client_disconnected`. */
  errorCode?: string | null;
  /** Arrival time in Unix milliseconds: from `fromMs`, before `toMs`. */
  fromMs?: number | null;
  toMs?: number | null;
  requestId?: string | null;
  /** Minimum time until the end, and until the first token, in milliseconds. Running requests do not match. */
  minDurationMs?: number | null;
  minTtftMs?: number | null;
  /** Minimum of prompt and completion tokens together. Running requests do not match. */
  minTokens?: number | null;
  /** Minimum cost in pico-dollars. Running requests do not match. */
  minCostPico?: bigint | null;
  note?: RequestNote | null;
}

export interface RequestPage {
  /** Newest first. */
  requests: RequestRow[];
  /** The `before` of the next page; null on the last page. */
  next: string | null;
}

/** Maximum rows that one query scans. A scan takes about ten milliseconds, during which other queries may wait. */
const WINDOW_ROWS = 4000;

/** Milliseconds after which a search returns what it has found. */
const SEARCH_MS = 30;

/**
 * Returns a page of the request log, newest first: at most `limit` (1 to 200) requests before the ID `before`. A
 * search for rare rows may return an incomplete or empty page with a `next`, so that no page takes long. Rejects
 * with a `DatabaseError`.
 */
export async function readRequests(
  database: Database,
  filter: RequestFilter,
  { limit, before = null }: { limit: number; before?: string | null },
): Promise<RequestPage> {
  const pageSize = Math.min(Math.max(1, limit), MAX_REQUESTS_PAGE);
  const deadline = performance.now() + SEARCH_MS;
  const requests: RequestRow[] = [];
  let cursor = before;
  for (;;) {
    const from = await windowEnd(database, filter, cursor);
    const rows = await filtered(database, filter)
      .$if(cursor !== null, (query) => query.where('id', '<', cursor ?? ''))
      .$if(from !== null, (query) => query.where('id', '>=', from ?? ''))
      .orderBy('id', 'desc')
      .limit(pageSize + 1 - requests.length)
      .execute();
    requests.push(...rows);
    if (requests.length > pageSize) {
      requests.pop();
      return { requests, next: requests.at(-1)?.id ?? null };
    }
    if (from === null || performance.now() > deadline) return { requests, next: from };
    cursor = from;
  }
}

/** Returns the ID of the oldest row that the next query may scan; null: it may scan all remaining rows. */
async function windowEnd(
  database: Database,
  filter: RequestFilter,
  cursor: string | null,
): Promise<string | null> {
  // These filters match few rows, through an index.
  if (filter.state === 'open' || filter.requestId != null) return null;
  const row = await database.reports
    .selectFrom('ledger')
    .select('id')
    .$call((query) => filterByIndex(query, filter))
    .$if(cursor !== null, (query) => query.where('id', '<', cursor ?? ''))
    .orderBy('id', 'desc')
    .offset(WINDOW_ROWS - 1)
    .limit(1)
    .executeTakeFirst();
  return row?.id ?? null;
}

/** Rows per query of an export. Receiving and converting them blocks the event loop for a few milliseconds. */
const EXPORT_ROWS = 500;

/** Yields all matching rows, oldest first, reading page by page. Rejects with a `DatabaseError`. */
export async function* exportRequests(
  database: Database,
  filter: RequestFilter,
): AsyncGenerator<RequestRow, void> {
  let after = '';
  for (;;) {
    const rows = await filtered(database, filter)
      .where('id', '>', after)
      .orderBy('id')
      .limit(EXPORT_ROWS)
      .execute();
    yield* rows;
    const last = rows.at(-1);
    if (last === undefined || rows.length < EXPORT_ROWS) return;
    after = last.id;
  }
}

/** Returns the row of a request; null if there is none. Rejects with a `DatabaseError`. */
export async function readRequest(database: Database, id: string): Promise<RequestRow | null> {
  return (await selectRows(database.reports).where('id', '=', id).executeTakeFirst()) ?? null;
}

/** Maximum requests with one client request ID. */
const MAX_SAME_ID = 200;

/**
 * Returns an account's requests with this client request ID, newest first, up to 200. Rejects with a
 * `DatabaseError`.
 */
export async function readRequestsOf(
  database: Database,
  accountId: string,
  clientRequestId: string,
): Promise<RequestRow[]> {
  return await selectRows(database.reports)
    .where('account_id', '=', accountId)
    .where('client_request_id', '=', clientRequestId)
    .orderBy('id', 'desc')
    .limit(MAX_SAME_ID)
    .execute();
}

const SELECTION = [
  ...COLUMNS.map(({ name, kind }) =>
    (kind === 'pico' ? sql<unknown>`cast(${sql.ref(name)} as text)` : sql.ref(name)).as(name),
  ),
  sql.raw(NOTES_SQL).as('notes'),
];

function selectRows(kysely: Kysely<Schema>) {
  return kysely.selectFrom('ledger').select(SELECTION).$castTo<RequestRow>();
}

function filtered(database: Database, filter: RequestFilter) {
  const { keyId, model, client, state, outcome, statusClass, errorCode, requestId, note } = filter;
  return selectRows(database.reports)
    .$call((query) => filterByIndex(query, filter))
    .$if(outcome != null, (query) => query.where(sql.raw<boolean>(OUTCOMES[outcome ?? 'completed'])))
    .$if(keyId != null, (query) => query.where('key_id', '=', String(keyId)))
    .$if(model != null, (query) => query.where('model', '=', String(model)))
    .$if(client != null, (query) => query.where(sql<string>`coalesce(client, '')`, '=', String(client)))
    .$if(state != null, (query) => query.where('state', '=', state ?? 'open'))
    .$if(statusClass != null, (query) =>
      query
        .where('http_status', '>=', Number(statusClass) * 100)
        .where('http_status', '<', Number(statusClass) * 100 + 100),
    )
    .$if(errorCode != null, (query) => query.where('error_code', '=', String(errorCode)))
    .$if(requestId != null, (query) => query.where('id', '=', String(requestId)))
    .$if(note != null, (query) => query.where(sql.raw<boolean>(REQUEST_NOTES[note ?? 'retried'].sql)))
    .$call((query) => filterByMinimum(query, filter));
}

/** What the minimums of a filter apply to, in SQL. A request has its final values when it has ended. */
const MEASURES = {
  minDurationMs: 'ended_at - started_at',
  minTtftMs: 'first_token_at - started_at',
  minTokens: 'prompt_tokens + completion_tokens',
  minCostPico: 'cost_pico',
} as const satisfies Partial<Record<keyof RequestFilter, string>>;

function filterByMinimum<O>(query: SelectQueryBuilder<Schema, 'ledger', O>, filter: RequestFilter) {
  // The keys of the object.
  const names = (Object.keys(MEASURES) as (keyof typeof MEASURES)[]).filter((name) => filter[name] != null);
  return names.reduce(
    (inner, name) => inner.where(sql<boolean>`${sql.raw(MEASURES[name])} >= ${filter[name]}`),
    names.length === 0 ? query : query.where('state', '<>', 'open'),
  );
}

/** Applies the filters that an index supports: account, time (IDs are ordered by time), and failure. */
function filterByIndex<O>(query: SelectQueryBuilder<Schema, 'ledger', O>, filter: RequestFilter) {
  const { accountId, fromMs, toMs, outcome, statusClass, errorCode, state } = filter;
  const failed =
    (statusClass ?? 0) >= 4 ||
    errorCode != null ||
    state === 'interrupted' ||
    (outcome != null && outcome !== 'completed');
  return query
    .$if(accountId != null, (inner) => inner.where('account_id', '=', String(accountId)))
    .$if(fromMs != null, (inner) => inner.where('id', '>=', firstIdAt(Number(fromMs))))
    .$if(toMs != null, (inner) => inner.where('id', '<', firstIdAt(Number(toMs))))
    .$if(failed, (inner) =>
      // Must match the condition of the index `ledger_failed`.
      inner.where(sql<boolean>`(error_code is not null or state = 'interrupted')`),
    );
}
