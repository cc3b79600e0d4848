import { sql, type RawBuilder } from 'kysely';
import { firstIdAt } from '../../database/partitions.ts';
import { DAY_MS } from './days.ts';
import { LEAST, LOG_GAMMA } from './histogram.ts';
import { OUTCOMES, USAGE_SUMS } from './sums.ts';

export const HOUR_MS = 3_600_000;

/** From `fromDay`, before `toDay`, in days since 1970-01-01, and the same in hours. `accountId` null: all accounts. */
interface DayRange {
  fromDay: number;
  toDay: number;
  fromHour?: number;
  toHour?: number;
  accountId?: string | null;
}

/** Selects the ended rows of these days, with the columns of `usage_days` plus the column `hour`. */
export function hourlyUsage(days: DayRange) {
  const sums = USAGE_SUMS.map((sum) => sql`${sql.raw(sum.sql)} as ${sql.ref(sum.name)}`);
  return sql`(
    select ${KEY}, ${sql.join(sums)} from ledger where ${inRange(days)} and state <> 'open') as hours`;
}

/** Selects the histograms of these days, with the columns of `latency_days` plus the column `hour`. */
export function hourlyLatencies(days: DayRange) {
  const hasTokens = sql.raw(
    `first_token_at is not null and (${OUTCOMES.completed} or ${OUTCOMES.client_disconnected})`,
  );
  const tookMs = sql`(ended_at - first_token_at)`;
  const speed = sql`(completion_tokens - 1) * 1000.0 / ${tookMs}`;
  return sql`(
    select hour, day, model, key_id, account_id, measure, bucket, count(*) as count from (
      select ${KEY}, 'ttft' as measure, ${bucketSql(sql`(first_token_at - started_at)`)} as bucket
      from ledger where ${inRange(days)} and ${hasTokens}
      union all
      select ${KEY}, 'speed', ${bucketSql(speed)}
      from ledger where ${inRange(days)} and ${hasTokens} and completion_tokens > 1 and ${tookMs} > 0
    ) as latencies group by hour, day, model, key_id, account_id, measure, bucket) as hours`;
}

const KEY = sql`
  started_at / ${sql.lit(HOUR_MS)} as hour, started_at / ${sql.lit(DAY_MS)} as day, model, key_id, account_id`;

/**
 * An ID contains the time at which the request arrived. A request starts when its body is complete, which takes at most an
 * hour (`limits.bodyMs`).
 */
function inRange({ fromDay, toDay, fromHour = fromDay * 24, toHour = toDay * 24, accountId }: DayRange) {
  const first = firstIdAt((fromHour - 1) * HOUR_MS);
  const ofAccount = accountId == null ? sql`` : sql`account_id = ${accountId} and`;
  return sql`${ofAccount} id >= ${first} and id < ${firstIdAt(toHour * HOUR_MS)}`;
}

/** Returns the SQL for `bucketOf` of a numeric expression. */
function bucketSql(value: RawBuilder<unknown>): RawBuilder<unknown> {
  const real = sql`cast(${value} as double precision)`;
  const bounded = sql`case when ${real} < ${sql.lit(LEAST)} then ${sql.lit(LEAST)} else ${real} end`;
  return sql`cast(ceil(ln(${bounded}) / ${sql.lit(LOG_GAMMA)}) as integer)`;
}
