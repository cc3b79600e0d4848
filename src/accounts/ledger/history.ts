import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../database/database.ts';
import { firstIdAt } from '../../database/partitions.ts';
import { CALENDAR_WINDOWS, periodAround } from '../limits/calendar.ts';
import type { HistoryEntry, LimitHistory, LimitHolders } from '../limits/limiter.ts';
import { halfSums, wholeSum } from './cost.ts';
import { dayOf } from './days.ts';
import { COUNTS } from './roll-ups.ts';

/** Reads the usage of accounts from the ledger, for limits. The caller keeps ownership of `database`. */
export function openLimitHistory(database: Database): LimitHistory {
  return { read: (...query) => read(database, ...query) };
}

interface CountsRow extends RecentCounts {
  state: HistoryEntry['state'];
  /** With a space after each. */
  windows: string;
  high_pico: string;
  low_pico: string;
}

/** The calendar periods of a time, in Unix milliseconds: from their first start to their last end. */
export function calendarAt(atMs: number) {
  const periods = CALENDAR_WINDOWS.map((window) => ({ window, ...periodAround(window, atMs) }));
  return {
    fromMs: Math.min(...periods.map(({ fromMs }) => fromMs)),
    toMs: Math.max(...periods.map(({ toMs }) => toMs)),
    /** SQL for the windows in which a day counts, for `windowsOf`. */
    windows: (day: RawBuilder<unknown>) =>
      sql`${sql.join(
        periods.map(
          ({ window, fromMs, toMs }) =>
            sql`case when ${day} >= ${dayOf(fromMs)} and ${day} < ${dayOf(toMs)} then ${sql.lit(`${window} `)} else '' end`,
        ),
        sql` || `,
      )} as windows`,
  };
}

/** Converts the names of windows, with a space after each. */
export function windowsOf(names: string): HistoryEntry['windows'] {
  // From `calendarAt`, or `minute `.
  return names.trimEnd().split(' ') as HistoryEntry['windows'][number][];
}

/**
 * A single statement reads one snapshot, so a request that ends during the read is either open or ended, never both.
 */
async function read(
  database: Database,
  { accountId, keyIds, otherKeys }: LimitHolders,
  atMs: number,
  recentMs: number,
  exceptIds: readonly string[],
): Promise<HistoryEntry[]> {
  const isSeparate = isOneOf(database, 'key_id', keyIds);
  const key = otherKeys ? sql`case when ${isSeparate} then key_id else '' end` : sql`key_id`;
  const isRead = otherKeys
    ? sql`account_id = ${accountId}`
    : sql`account_id = ${accountId} and ${isSeparate}`;
  const { fromMs, toMs, windows } = calendarAt(atMs);
  const startDay = sql`started_at / 86400000`;
  // By position, because PostgreSQL would group by the column `key_id` instead of the key that is returned.
  const { rows } = await sql<CountsRow>`
    select 'settled' as state, ${windows(sql`day`)}, ${key} as key_id, model, 0 as requests,
      cast(sum(billed_tokens) as bigint) as tokens, ${sql.raw(halfSums('cost_pico'))}
    from usage_days
    where ${isRead} and day >= ${dayOf(fromMs)} and day < ${dayOf(toMs)}
    group by 2, 3, 4
    union all
    select 'settled', ${windows(startDay)}, ${key}, model, 0,
      cast(-sum(${sql.raw(COUNTS.billed_tokens.sql)}) as bigint), ${sql.raw(halfSums('-cost_pico'))}
    from ledger
    where ${isOneOf(database, 'id', exceptIds)} and state <> 'open' and ${isRead}
      and started_at >= ${fromMs} and started_at < ${toMs}
    group by 2, 3, 4
    union all
    select 'reserved', ${windows(startDay)}, ${key}, model, 0,
      cast(sum(reserved_tokens) as bigint), ${sql.raw(halfSums('reserved_pico'))}
    from ledger
    where state = 'open' and not (${isOneOf(database, 'id', exceptIds)}) and ${isRead} and epoch in (select epoch from instances where live = 1)
      and started_at >= ${fromMs} and started_at < ${toMs}
    group by 2, 3, 4
    union all
    ${recent(isRead, key, atMs - recentMs)}`.execute(database.kysely);
  return rows.map((row) => ({
    keyId: row.key_id,
    model: row.model,
    state: row.state,
    windows: windowsOf(row.windows),
    requests: row.requests,
    tokens: row.tokens,
    pico: wholeSum(row),
  }));
}

/** The IDs are one parameter, because there can be more of them than the maximum number of parameters. */
function isOneOf({ location }: Database, column: 'id' | 'key_id', ids: readonly string[]) {
  return location.kind === 'sqlite'
    ? sql`${sql.ref(column)} in (select value from json_each(${JSON.stringify(ids)}))`
    : sql`${sql.ref(column)} = any(${ids})`;
}

/**
 * Usage of one key and model. Running requests count with their reserved tokens, others with their billed tokens. Requests
 * that were refused with a 4xx have none.
 */
export interface RecentCounts {
  key_id: string;
  model: string;
  requests: number;
  tokens: number;
}

/** Returns the usage of an account by requests that started since `sinceMs` (Unix milliseconds). */
export async function readRecentCounts(
  database: Database,
  accountId: string,
  sinceMs: number,
): Promise<RecentCounts[]> {
  const { rows } = await recent(sql`account_id = ${accountId}`, sql`key_id`, sinceMs).execute(
    database.reports,
  );
  return rows;
}

function recent(isRead: RawBuilder<unknown>, key: RawBuilder<unknown>, sinceMs: number) {
  return sql<CountsRow>`
    select 'settled' as state, 'minute ' as windows, ${key} as key_id, model, count(*) as requests,
      cast(sum(case when state = 'open' then reserved_tokens when billed = 1 then prompt_tokens + completion_tokens
        else 0 end) as bigint) as tokens,
      '0' as high_pico, '0' as low_pico
    from ledger
    where ${isRead} and id >= ${firstIdAt(sinceMs)}
      and (state = 'open' or billed = 1 or http_status between 400 and 499)
    group by 3, 4`;
}
