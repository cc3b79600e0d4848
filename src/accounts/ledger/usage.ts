import { setImmediate as turn } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Database } from '../../database/database.ts';
import { MAX_HOURLY_DAYS } from '../bounds.ts';
import { halfSums, wholeSum } from './money-sum.ts';
import type { UsageDimension } from './dimensions.ts';
import { percentile } from './histogram.ts';
import { hourlyLatencies, hourlyUsage } from './usage-hours.ts';

export interface UsageQuery {
  /** Empty: a single row with the totals. */
  by: readonly UsageDimension[];
  /**
   * Includes requests that started on or after `fromDay` and before `toDay`, in UTC days since 1970-01-01 (`dayOf`).
   */
  fromDay: number;
  toDay: number;
  /** Omitted or null filters match everything. */
  accountId?: string | null;
  keyId?: string | null;
  model?: string | null;
}

/** Accurate to 2%. */
type Percentiles<Name extends string> = Readonly<Record<Name, number>>;

export interface UsageRow {
  /** Hours since 1970-01-01 in UTC. Dimensions that were not requested are null. */
  hour: number | null;
  /** Days since 1970-01-01 in UTC. */
  day: number | null;
  model: string | null;
  keyId: string | null;
  accountId: string | null;
  requests: number;
  /** Ended with an error. */
  errors: number;
  /** The client disconnected. */
  aborted: number;
  interrupted: number;
  promptTokens: number;
  cachedTokens: number;
  completionTokens: number;
  /** Part of `completionTokens`. */
  reasoningTokens: number;
  /** Prompt and completion tokens that count against limits and are charged. */
  billedTokens: number;
  costPico: bigint;
  /** Time to first token in milliseconds; null: no response had a token. */
  ttftMs: Percentiles<'p50' | 'p95'> | null;
  /** Tokens per second after the first token; p5 is the slow end. Null: no response had two tokens. */
  tokensPerSecond: Percentiles<'p50' | 'p5'> | null;
}

const COLUMNS = { hour: 'hour', day: 'day', model: 'model', key: 'key_id', account: 'account_id' } as const;

/** The requested dimensions of a row. */
interface RowKey {
  hour?: number;
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
  reasoning_tokens: number;
  billed_tokens: number;
  high_pico: string;
  low_pico: string;
}

/**
 * Like `readUsage`, limited to `MAX_HOURLY_DAYS` days if grouped by hour. `nextDay` is the first day that was left out;
 * null: none.
 */
export async function readUsagePage(
  database: Database,
  query: UsageQuery,
): Promise<{ rows: UsageRow[]; nextDay: number | null }> {
  // There are no requests before 1970.
  const endDay = isHourly(query) ? Math.max(query.fromDay, 0) + MAX_HOURLY_DAYS : Infinity;
  const toDay = Math.min(query.toDay, endDay);
  return {
    rows: await readUsage(database, { ...query, toDay }),
    nextDay: toDay < query.toDay ? toDay : null,
  };
}

/**
 * Sums usage from the daily roll-ups: exact, and fast with millions of requests. Hourly usage is read from the
 * requests themselves. Sorted by the dimensions in the order of `by`. Rejects with a `DatabaseError`.
 */
export async function readUsage(database: Database, query: UsageQuery): Promise<UsageRow[]> {
  const sums = await readSums(database, query);
  const histograms = await readHistograms(database, query);
  const rows: UsageRow[] = [];
  for (const row of sums) {
    const { ttft = [], speed = [] } = histograms.get(rowName(row, query.by)) ?? {};
    rows.push({
      hour: row.hour ?? null,
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
      reasoningTokens: row.reasoning_tokens,
      billedTokens: row.billed_tokens,
      costPico: wholeSum(row),
      ttftMs: await percentiles(ttft, { p50: 0.5, p95: 0.95 }),
      tokensPerSecond: await percentiles(speed, { p50: 0.5, p5: 0.05 }),
    });
  }
  return rows;
}

async function readSums(database: Database, query: UsageQuery): Promise<Sums[]> {
  const by = query.by.map((dimension) => sql.ref(COLUMNS[dimension]));
  const grouped = by.length > 0 ? sql`group by ${sql.join(by)} order by ${sql.join(by)}` : sql``;
  const sum = (column: string) =>
    sql`cast(coalesce(sum(${sql.ref(column)}), 0) as bigint) as ${sql.ref(column)}`;
  const table = isHourly(query) ? hourlyUsage(query) : sql`usage_days`;
  const { rows } = await sql<Sums>`
    select ${sql.join([
      ...by,
      ...['requests', 'errors', 'aborted', 'interrupted'].map(sum),
      ...['prompt_tokens', 'cached_tokens', 'completion_tokens', 'reasoning_tokens', 'billed_tokens'].map(
        sum,
      ),
      ...halfSums(sql`cost_pico`),
    ])}
    from ${table} where ${filtered(query)} ${grouped}`.execute(database.reports);
  return rows;
}

/** Encoded histograms of one row, to be added up. */
type Histograms = Record<'ttft' | 'speed', string[]>;

/** The order of the primary key of `latency_days`. */
const KEY_ORDER: readonly UsageDimension[] = ['account', 'day', 'model', 'key'];

/**
 * Returns the histograms of each row, by `rowName`. Groups by a prefix of the primary key, because the database would
 * otherwise sort all buckets, which takes longer than the rest of the query.
 */
async function readHistograms(database: Database, query: UsageQuery): Promise<Map<string, Histograms>> {
  const where = filtered(query);
  const deepest = Math.max(0, ...query.by.map((dimension) => KEY_ORDER.indexOf(dimension)));
  const dimensions = isHourly(query) ? query.by : KEY_ORDER.slice(0, deepest + 1);
  const group = sql.join(dimensions.map((dimension) => sql.ref(COLUMNS[dimension])));
  const selected = isHourly(query)
    ? sql`${hourlyLatencies(query)} where ${where}`
    : // The last condition makes the database look up each account instead of scanning the whole table.
      sql`latency_days where ${where} and account_id in (select account_id from usage_days where ${where})`;
  const { rows } = await sql<HistogramRow>`
    select ${group}, ${selectBuckets('ttft')}, ${selectBuckets('speed')}
    from ${selected} group by ${group}`.execute(database.reports);
  return groupByName(rows, query.by);
}

function isHourly({ by }: UsageQuery): boolean {
  return by.includes('hour');
}

type HistogramRow = RowKey & Record<keyof Histograms, string | null>;

function groupByName(rows: readonly HistogramRow[], by: readonly UsageDimension[]): Map<string, Histograms> {
  const found = new Map<string, Histograms>();
  for (const row of rows) {
    const name = rowName(row, by);
    const histograms = found.get(name) ?? { ttft: [], speed: [] };
    found.set(name, histograms);
    if (row.ttft !== null) histograms.ttft.push(row.ttft);
    if (row.speed !== null) histograms.speed.push(row.speed);
  }
  return found;
}

/**
 * Selects the buckets of a group as one string (`12:3,14:1,12:2`), because there are a hundred times as many
 * buckets as groups and most of the cost is per row.
 */
function selectBuckets(measure: keyof Histograms) {
  return sql`string_agg(bucket || ':' || count, ',') filter (where measure = ${sql.lit(measure)}) as ${sql.ref(measure)}`;
}

/** Characters that all callers together parse before yielding to the event loop; takes about a millisecond. */
const CHARACTERS_PER_TURN = 200_000;
let charactersLeft = CHARACTERS_PER_TURN;

/** Returns the percentiles at `shares`, or null if there are no values. */
async function percentiles<Name extends string>(
  texts: readonly string[],
  shares: Readonly<Record<Name, number>>,
): Promise<Percentiles<Name> | null> {
  const counts = new Map<number, number>();
  for (const text of texts) {
    addBuckets(counts, text);
    charactersLeft -= text.length;
    if (charactersLeft > 0) continue;
    charactersLeft = CHARACTERS_PER_TURN;
    await turn();
  }
  const ascending = [...counts]
    .map(([bucket, count]) => ({ bucket, count }))
    .sort((a, b) => a.bucket - b.bucket);
  if (ascending.length === 0) return null;
  const values = Object.entries<number>(shares).map(([name, share]) => [name, percentile(ascending, share)]);
  // The keys are the keys of `shares`. A percentile is null only if there are no values.
  return Object.fromEntries(values) as Percentiles<Name>;
}

const MINUS = 45;
const ZERO = 48;
const COLON = 58;
const COMMA = 44;

/** Parses an encoded histogram and adds its counts. Parses by character because there can be millions of buckets. */
function addBuckets(counts: Map<number, number>, text: string): void {
  let bucket = 0;
  let number = 0;
  let sign = 1;
  for (let at = 0; at <= text.length; at++) {
    const code = at < text.length ? text.charCodeAt(at) : COMMA;
    if (code === MINUS) {
      sign = -1;
    } else if (code === COLON) {
      bucket = sign * number;
      [number, sign] = [0, 1];
    } else if (code === COMMA) {
      counts.set(bucket, (counts.get(bucket) ?? 0) + number);
      number = 0;
    } else {
      number = number * 10 + code - ZERO;
    }
  }
}

function filtered({ fromDay, toDay, accountId, keyId, model }: UsageQuery) {
  const conditions = [sql`day >= ${fromDay}`, sql`day < ${toDay}`];
  if (accountId != null) conditions.push(sql`account_id = ${accountId}`);
  if (keyId != null) conditions.push(sql`key_id = ${keyId}`);
  if (model != null) conditions.push(sql`model = ${model}`);
  return sql.join(conditions, sql` and `);
}

function rowName(key: RowKey, by: readonly UsageDimension[]): string {
  return by.map((dimension) => key[COLUMNS[dimension]]).join('\n');
}
