import { sql } from 'kysely';
import type { Database } from '../../database/database.ts';
import { halfSums, wholeSum } from './money-sum.ts';
import { percentile, type BucketCount } from './histogram.ts';

/** By what usage is summed. */
export const USAGE_DIMENSIONS = ['day', 'model', 'key', 'account'] as const;
export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];

export interface UsageQuery {
  /** None: one row for all. */
  by: readonly UsageDimension[];
  /** Days since 1970-01-01 in UTC (`dayOf`), by the start of the requests: from the first up to, without, the second. */
  fromDay: number;
  toDay: number;
  /** What is left out, or null, does not narrow. */
  accountId?: string | null;
  keyId?: string | null;
  model?: string | null;
}

/** Half of all values are at most `p50`, 95% at most `p95`; each at most 2% off. */
export interface Percentiles {
  p50: number;
  p95: number;
}

export interface UsageRow {
  /** What was not asked for is null. */
  day: number | null;
  model: string | null;
  keyId: string | null;
  accountId: string | null;
  requests: number;
  /** Ended with an error. */
  errors: number;
  /** The caller hung up. */
  aborted: number;
  interrupted: number;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  /** Prompt and completion tokens that count against limits and are paid for. */
  billedTokens: number;
  costPico: bigint;
  /** Time to the first token, in milliseconds; null: no answer had one. */
  ttftMs: Percentiles | null;
  /** Tokens a second after the first one; null: no answer had two. */
  tokensPerSecond: Percentiles | null;
}

const COLUMNS = { day: 'day', model: 'model', key: 'key_id', account: 'account_id' } as const;

/** The key of a row: what was asked for; the rest is not there. */
interface RowKey {
  day?: number;
  model?: string;
  key_id?: string;
  account_id?: string;
}

interface Sums extends RowKey {
  requests: number;
  errors: number;
  aborted: number;
  interrupted: number;
  prompt_tokens: number;
  cached_tokens: number;
  completion_tokens: number;
  billed_tokens: number;
  high_pico: string;
  low_pico: string;
}

/**
 * Sums over days, from the roll-ups: exact, and as quick with millions of requests as with ten. Ordered by what they
 * are summed by, in the order asked for. Rejects with a `DatabaseError`.
 */
export async function readUsage(database: Database, query: UsageQuery): Promise<UsageRow[]> {
  const { rows: sums, buckets } = await read(database, query);
  return sums.map((row) => {
    const histograms = buckets.get(nameOf(row));
    return {
      day: row.day ?? null,
      model: row.model ?? null,
      keyId: row.key_id ?? null,
      accountId: row.account_id ?? null,
      requests: row.requests,
      errors: row.errors,
      aborted: row.aborted,
      interrupted: row.interrupted,
      promptTokens: row.prompt_tokens,
      cachedTokens: row.cached_tokens,
      completionTokens: row.completion_tokens,
      billedTokens: row.billed_tokens,
      costPico: wholeSum(row),
      ttftMs: percentiles(histograms?.ttft),
      tokensPerSecond: percentiles(histograms?.speed),
    };
  });
}

type Histograms = Record<'ttft' | 'speed', BucketCount[]>;

async function read(database: Database, query: UsageQuery) {
  const by = query.by.map((dimension) => sql.ref(COLUMNS[dimension]));
  const named = by.map((column) => sql`${column},`);
  const where = narrowed(query);
  const grouped = by.length > 0 ? sql`group by ${sql.join(by)} order by ${sql.join(by)}` : sql``;
  const sum = (column: string) =>
    sql`cast(coalesce(sum(${sql.ref(column)}), 0) as bigint) as ${sql.ref(column)}`;
  const { rows } = await sql<Sums>`
    select ${sql.join(named, sql` `)}
      ${sql.join([
        ...['requests', 'errors', 'aborted', 'interrupted'].map(sum),
        ...['prompt_tokens', 'cached_tokens', 'completion_tokens', 'billed_tokens'].map(sum),
        ...halfSums(sql`cost_pico`),
      ])}
    from usage_days where ${where} ${grouped}`.execute(database.kysely);
  const counted = await sql<RowKey & Record<keyof Histograms, string | null>>`
    select ${sql.join(named, sql` `)} ${counts('ttft')}, ${counts('speed')}
    from latency_days where ${where} ${grouped}`.execute(database.kysely);
  const buckets = new Map<string, Histograms>();
  for (const row of counted.rows) {
    buckets.set(nameOf(row), { ttft: parsed(row.ttft ?? ''), speed: parsed(row.speed ?? '') });
  }
  return { rows, buckets };
}

/**
 * All buckets of a row as one text, `12:3,14:1,12:2`: there are a hundred times as many of them as rows, and most of
 * what a row costs is to hand it over.
 */
function counts(measure: keyof Histograms) {
  return sql`string_agg(bucket || ':' || count, ',') filter (where measure = ${sql.lit(measure)}) as ${sql.ref(measure)}`;
}

const MINUS = 45;
const ZERO = 48;
const COLON = 58;
const COMMA = 44;

/** Such a text, ascending. Sign by sign: there can be tens of thousands of buckets in it. */
function parsed(text: string): BucketCount[] {
  const found: BucketCount[] = [];
  let bucket = 0;
  let number = 0;
  let sign = 1;
  let last = -Infinity;
  let ascending = true;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === MINUS) {
      sign = -1;
    } else if (code === COLON) {
      bucket = sign * number;
      number = 0;
      sign = 1;
    } else if (code !== COMMA) {
      number = number * 10 + code - ZERO;
    }
    if (code !== COMMA && at < text.length - 1) continue;
    found.push({ bucket, count: sign * number });
    ascending &&= bucket > last;
    last = bucket;
    number = 0;
    sign = 1;
  }
  return ascending ? found : merged(found);
}

function merged(found: readonly BucketCount[]): BucketCount[] {
  const sums = new Map<number, number>();
  for (const { bucket, count } of found) sums.set(bucket, (sums.get(bucket) ?? 0) + count);
  return [...sums].map(([bucket, count]) => ({ bucket, count })).sort((a, b) => a.bucket - b.bucket);
}

function narrowed({ fromDay, toDay, accountId, keyId, model }: UsageQuery) {
  const conditions = [sql`day >= ${fromDay}`, sql`day < ${toDay}`];
  if (accountId != null) conditions.push(sql`account_id = ${accountId}`);
  if (keyId != null) conditions.push(sql`key_id = ${keyId}`);
  if (model != null) conditions.push(sql`model = ${model}`);
  return sql.join(conditions, sql` and `);
}

function nameOf({ day, model, key_id, account_id }: RowKey): string {
  return [day, model, key_id, account_id].join('\n');
}

function percentiles(ascending: readonly BucketCount[] = []): Percentiles | null {
  const [p50, p95] = [percentile(ascending, 0.5), percentile(ascending, 0.95)];
  return p50 === null || p95 === null ? null : { p50, p95 };
}
