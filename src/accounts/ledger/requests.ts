import { sql, type SelectQueryBuilder } from 'kysely';
import type { Database } from '../../database/database.ts';
import { firstIdAt } from '../../database/partitions.ts';
import type { LedgerState } from '../../database/ledger-columns.ts';
import type { Schema } from '../../database/schema.ts';
import { MOST_REQUESTS } from '../bounds.ts';
import type { RequestOutcome } from './dimensions.ts';
import { selectRecords, toRecord, type LedgerRecord } from './record.ts';
import { HUNG_UP } from './write.ts';

/** Which requests; what is left out, or null, does not narrow. */
export interface RequestFilter {
  accountId?: string | null;
  keyId?: string | null;
  model?: string | null;
  state?: LedgerState | null;
  /** How it ended, in the words of `usage`. */
  outcome?: RequestOutcome | null;
  /** First digit of the HTTP status. */
  statusClass?: 2 | 3 | 4 | 5 | null;
  /** Code of the error, or `hung_up`. */
  errorCode?: string | null;
  /** Unix milliseconds of when it came: from the first of them up to, without, the second. */
  fromMs?: number | null;
  toMs?: number | null;
  requestId?: string | null;
}

export interface RequestPage {
  /** Newest first. */
  requests: LedgerRecord[];
  /** What the next page comes `before`; null: there is no more. */
  next: string | null;
}

/** Rows that one query looks through: about ten milliseconds, for which others may wait for the connection. */
const WINDOW_ROWS = 4000;

/** How long a page is looked for, in milliseconds, before it is given as it is. */
const SEARCH_MS = 30;

/**
 * A page of the log of requests, newest first: at most `limit` (1 to 200) that came before the one of the id
 * `before`. Where few rows pass the filter a page may hold fewer, or none, and still tell where the next one goes
 * on: no page takes long, however rare what is looked for. Rejects with a `DatabaseError`.
 */
export async function readRequests(
  database: Database,
  filter: RequestFilter,
  { limit, before = null }: { limit: number; before?: string | null },
): Promise<RequestPage> {
  const most = Math.min(Math.max(1, limit), MOST_REQUESTS);
  const deadline = performance.now() + SEARCH_MS;
  const requests: LedgerRecord[] = [];
  let cursor = before;
  for (;;) {
    const from = await windowEnd(database, filter, cursor);
    const rows = await narrowed(database, filter)
      .$if(cursor !== null, (query) => query.where('id', '<', cursor ?? ''))
      .$if(from !== null, (query) => query.where('id', '>=', from ?? ''))
      .orderBy('id', 'desc')
      .limit(most + 1 - requests.length)
      .execute();
    requests.push(...rows.map(toRecord));
    if (requests.length > most) {
      requests.pop();
      return { requests, next: requests.at(-1)?.id ?? null };
    }
    if (from === null || performance.now() > deadline) return { requests, next: from };
    cursor = from;
  }
}

/** The id of the last row to be looked through before the cursor; null: all that are left. */
async function windowEnd(
  database: Database,
  filter: RequestFilter,
  cursor: string | null,
): Promise<string | null> {
  // Of these there are few at any time, or one.
  if (filter.state === 'open' || filter.requestId != null) return null;
  const row = await database.reports
    .selectFrom('ledger')
    .select('id')
    .$call((query) => indexed(query, filter))
    .$if(cursor !== null, (query) => query.where('id', '<', cursor ?? ''))
    .orderBy('id', 'desc')
    .offset(WINDOW_ROWS - 1)
    .limit(1)
    .executeTakeFirst();
  return row?.id ?? null;
}

/** Rows of one page of an export: to take it over from the database holds up the event loop for some milliseconds. */
const EXPORT_ROWS = 500;

/**
 * Every row that the filter lets through, oldest first, read page by page as they are taken. Rejects with a
 * `DatabaseError`.
 */
export async function* exportRequests(
  database: Database,
  filter: RequestFilter,
): AsyncGenerator<LedgerRecord, void> {
  let after = '';
  for (;;) {
    const rows = await narrowed(database, filter)
      .where('id', '>', after)
      .orderBy('id')
      .limit(EXPORT_ROWS)
      .execute();
    for (const row of rows) yield toRecord(row);
    const last = rows.at(-1);
    if (last === undefined || rows.length < EXPORT_ROWS) return;
    after = last.id;
  }
}

function narrowed(database: Database, filter: RequestFilter) {
  const { keyId, model, state, outcome, statusClass, errorCode, requestId } = filter;
  return selectRecords(database.reports)
    .$call((query) => indexed(query, filter))
    .$if(outcome != null, (query) => query.where(endedAs(outcome ?? 'completed')))
    .$if(keyId != null, (query) => query.where('key_id', '=', String(keyId)))
    .$if(model != null, (query) => query.where('model', '=', String(model)))
    .$if(state != null, (query) => query.where('state', '=', state ?? 'open'))
    .$if(statusClass != null, (query) =>
      query
        .where('http_status', '>=', Number(statusClass) * 100)
        .where('http_status', '<', Number(statusClass) * 100 + 100),
    )
    .$if(errorCode != null, (query) => query.where('error_code', '=', String(errorCode)))
    .$if(requestId != null, (query) => query.where('id', '=', String(requestId)));
}

function endedAs(outcome: RequestOutcome) {
  switch (outcome) {
    case 'completed':
      return sql<boolean>`state = 'settled' and error_code is null`;
    case 'error':
      return sql<boolean>`state = 'settled' and error_code <> ${HUNG_UP}`;
    case 'hung_up':
      return sql<boolean>`state = 'settled' and error_code = ${HUNG_UP}`;
    case 'interrupted':
      return sql<boolean>`state = 'interrupted'`;
  }
}

/** What an index answers: the account, the time (an id tells when its request came), and whether it went wrong. */
function indexed<O>(query: SelectQueryBuilder<Schema, 'ledger', O>, filter: RequestFilter) {
  const { accountId, fromMs, toMs, outcome, statusClass, errorCode, state } = filter;
  const failed =
    (statusClass ?? 0) >= 4 ||
    errorCode != null ||
    state === 'interrupted' ||
    (outcome != null && outcome !== 'completed');
  return query
    .$if(accountId != null, (narrower) => narrower.where('account_id', '=', String(accountId)))
    .$if(fromMs != null, (narrower) => narrower.where('id', '>=', firstIdAt(Number(fromMs))))
    .$if(toMs != null, (narrower) => narrower.where('id', '<', firstIdAt(Number(toMs))))
    .$if(failed, (narrower) =>
      // In the words of the index `ledger_failed`.
      narrower.where(sql<boolean>`(error_code is not null or state = 'interrupted')`),
    );
}
