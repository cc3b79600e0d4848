import { sql } from 'kysely';
import { firstIdAt } from '../../database/partitions.ts';
import { DAY_MS } from './days.ts';
import { bucketSql } from './histogram.ts';
import { HUNG_UP } from './write.ts';

/** An hour in milliseconds. */
export const HOUR_MS = 3_600_000;

/** From the first day up to, without, the second, in days since 1970-01-01; null: of all accounts. */
interface Days {
  fromDay: number;
  toDay: number;
  accountId?: string | null;
}

/** The rows of these days that have ended, with the columns of the sums of a day and the hour beside them. */
export function usageOfHours(days: Days) {
  const settled = sql`state = 'settled'`;
  const count = (condition: ReturnType<typeof sql>) => sql`case when ${condition} then 1 else 0 end`;
  return sql`(
    select ${KEY}, 1 as requests,
      ${count(sql`${settled} and error_code <> ${sql.lit(HUNG_UP)}`)} as errors,
      ${count(sql`${settled} and error_code = ${sql.lit(HUNG_UP)}`)} as aborted,
      ${count(sql`state = 'interrupted'`)} as interrupted,
      prompt_tokens, cached_tokens, completion_tokens,
      billed * (prompt_tokens + completion_tokens) as billed_tokens, cost_pico
    from ledger where ${within(days)} and state <> 'open') as hours`;
}

/** What these rows would add to the histograms of a day, with the hour beside it. */
export function latenciesOfHours(days: Days) {
  const answered = sql`
    state = 'settled' and first_token_at is not null
    and (error_code is null or error_code = ${sql.lit(HUNG_UP)})`;
  const tookMs = sql`(ended_at - first_token_at)`;
  const speed = sql`(completion_tokens - 1) * 1000.0 / ${tookMs}`;
  return sql`(
    select hour, day, model, key_id, account_id, measure, bucket, count(*) as count from (
      select ${KEY}, 'ttft' as measure, ${bucketSql(sql`(first_token_at - started_at)`)} as bucket
      from ledger where ${within(days)} and ${answered}
      union all
      select ${KEY}, 'speed', ${bucketSql(speed)}
      from ledger where ${within(days)} and ${answered} and completion_tokens > 1 and ${tookMs} > 0
    ) as latencies group by hour, day, model, key_id, account_id, measure, bucket) as hours`;
}

const KEY = sql`
  started_at / ${sql.lit(HOUR_MS)} as hour, started_at / ${sql.lit(DAY_MS)} as day, model, key_id, account_id`;

/** An id tells when its request came; it starts, by which it is counted, when its body is there. */
function within({ fromDay, toDay, accountId }: Days) {
  const first = firstIdAt(fromDay * DAY_MS - HOUR_MS);
  const ofAccount = accountId == null ? sql`` : sql`account_id = ${accountId} and`;
  return sql`${ofAccount} id >= ${first} and id < ${firstIdAt(toDay * DAY_MS)}`;
}
