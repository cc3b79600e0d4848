import type { Database } from '../../database/database.ts';
import { firstIdAt } from '../../database/partitions.ts';
import type { LedgerState } from '../../database/schema.ts';
import { selectRecords, toRecord, type LedgerRecord } from './record.ts';

/** Which requests; what is left out, or null, does not narrow. */
export interface RequestFilter {
  accountId?: string | null;
  keyId?: string | null;
  model?: string | null;
  state?: LedgerState | null;
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
  /** Where the next page goes on: the id of the last row of this one; null: there is no more. */
  next: string | null;
}

/** Most rows of one page. */
export const MOST_REQUESTS = 200;

/**
 * A page of the log of requests, newest first: at most `limit` (1 to 200) that came before the one of the id
 * `before`. Rejects with a `DatabaseError`.
 */
export async function readRequests(
  database: Database,
  filter: RequestFilter,
  { limit, before = null }: { limit: number; before?: string | null },
): Promise<RequestPage> {
  const most = Math.min(Math.max(1, limit), MOST_REQUESTS);
  let query = narrowed(database, filter);
  if (before !== null) query = query.where('id', '<', before);
  const rows = await query
    .orderBy('id', 'desc')
    .limit(most + 1)
    .execute();
  const requests = rows.slice(0, most).map(toRecord);
  return { requests, next: rows.length > most ? (requests.at(-1)?.id ?? null) : null };
}

/** Rows of one page of an export. On SQLite a page holds up the event loop for some milliseconds. */
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
  const { accountId, keyId, model, state, statusClass, errorCode, fromMs, toMs, requestId } = filter;
  // An id says when its request came.
  return selectRecords(database.kysely)
    .$if(accountId != null, (query) => query.where('account_id', '=', String(accountId)))
    .$if(keyId != null, (query) => query.where('key_id', '=', String(keyId)))
    .$if(model != null, (query) => query.where('model', '=', String(model)))
    .$if(state != null, (query) => query.where('state', '=', state ?? 'open'))
    .$if(statusClass != null, (query) =>
      query
        .where('http_status', '>=', Number(statusClass) * 100)
        .where('http_status', '<', Number(statusClass) * 100 + 100),
    )
    .$if(errorCode != null, (query) => query.where('error_code', '=', String(errorCode)))
    .$if(fromMs != null, (query) => query.where('id', '>=', firstIdAt(Number(fromMs))))
    .$if(toMs != null, (query) => query.where('id', '<', firstIdAt(Number(toMs))))
    .$if(requestId != null, (query) => query.where('id', '=', String(requestId)));
}
