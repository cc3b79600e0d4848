import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../database/database.ts';
import { firstIdAt } from '../../database/partitions.ts';
import type { HistoryEntry, UsageHistory } from '../limits/limiter.ts';
import { halfSums, wholeSum } from './cost.ts';
import { dayOf } from './days.ts';
import { COUNTS } from './roll-ups.ts';

/** Reads the usage of accounts from the ledger, for limits. The caller keeps ownership of `database`. */
export function openUsageHistory(database: Database): UsageHistory {
  return { read: (...query) => read(database, ...query) };
}

interface UsageRow extends RecentUsage {
  state: HistoryEntry['state'];
  period: keyof typeof WINDOWS;
  high_pico: string;
  low_pico: string;
}

/** The windows in which the rows of a query count. */
const WINDOWS = { recent: ['minute'], today: ['day', 'month'], month: ['month'] } as const;

/**
 * A single statement reads one snapshot, so a request that ends during the read is either open or ended, never both.
 */
async function read(
  database: Database,
  accountId: string,
  atMs: number,
  recentMs: number,
  exceptIds: readonly string[],
): Promise<HistoryEntry[]> {
  const today = dayOf(atMs);
  const at = new Date(atMs);
  const month = [0, 1].map((ahead) => Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + ahead));
  const [fromMs = 0, toMs = 0] = month;
  const period = (day: RawBuilder<unknown>) =>
    sql`case when ${day} = ${today} then 'today' else 'month' end as period`;
  const startDay = sql`started_at / 86400000`;
  const { rows } = await sql<UsageRow>`
    select 'settled' as state, ${period(sql`day`)}, key_id, model, 0 as requests,
      cast(sum(billed_tokens) as bigint) as tokens, ${sql.raw(halfSums('cost_pico'))}
    from usage_days
    where account_id = ${accountId} and day >= ${dayOf(fromMs)} and day < ${dayOf(toMs)}
    group by key_id, model, period
    union all
    select 'settled', ${period(startDay)}, key_id, model, 0,
      cast(-sum(${sql.raw(COUNTS.billed_tokens.sql)}) as bigint), ${sql.raw(halfSums('-cost_pico'))}
    from ledger
    where ${isOneOf(database, exceptIds)} and state <> 'open' and account_id = ${accountId}
      and started_at >= ${fromMs} and started_at < ${toMs}
    group by key_id, model, period
    union all
    select 'reserved', ${period(startDay)}, key_id, model, 0,
      cast(sum(reserved_tokens) as bigint), ${sql.raw(halfSums('reserved_pico'))}
    from ledger
    where state = 'open' and account_id = ${accountId} and epoch in (select epoch from instances where live = 1)
      and started_at >= ${fromMs} and started_at < ${toMs}
    group by key_id, model, period
    union all
    ${recent(accountId, atMs - recentMs)}`.execute(database.kysely);
  return rows.map((row) => ({
    keyId: row.key_id,
    model: row.model,
    state: row.state,
    windows: WINDOWS[row.period],
    requests: row.requests,
    tokens: row.tokens,
    pico: wholeSum(row),
  }));
}

/** The IDs are one parameter, because there can be more of them than the maximum number of parameters. */
function isOneOf({ location }: Database, ids: readonly string[]) {
  return location.kind === 'sqlite'
    ? sql`id in (select value from json_each(${JSON.stringify(ids)}))`
    : sql`id = any(${ids})`;
}

/** Usage of one key and model. Running requests count with their reserved tokens, others with their billed tokens. */
export interface RecentUsage {
  key_id: string;
  model: string;
  requests: number;
  tokens: number;
}

/** Returns the usage of an account by requests that started since `sinceMs` (Unix milliseconds). */
export async function readRecentUsage(
  database: Database,
  accountId: string,
  sinceMs: number,
): Promise<RecentUsage[]> {
  const { rows } = await recent(accountId, sinceMs).execute(database.reports);
  return rows;
}

function recent(accountId: string, sinceMs: number) {
  return sql<UsageRow>`
    select 'settled' as state, 'recent' as period, key_id, model, count(*) as requests,
      cast(sum(case when state = 'open' then reserved_tokens else prompt_tokens + completion_tokens end) as bigint)
        as tokens,
      '0' as high_pico, '0' as low_pico
    from ledger
    where account_id = ${accountId} and id >= ${firstIdAt(sinceMs)} and (state = 'open' or billed = 1)
    group by key_id, model`;
}
