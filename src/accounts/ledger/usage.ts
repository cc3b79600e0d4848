import { setImmediate as turn } from 'node:timers/promises';
import { sql, type RawBuilder } from 'kysely';
import type { Database } from '../../database/database.ts';
import { DatabaseError } from '../../database/errors.ts';
import { firstIdAt } from '../../database/partitions.ts';
import { MAX_HOURLY_DAYS } from '../bounds.ts';
import { invalidCursor } from '../page.ts';
import { halfSums, usdText, wholeSum } from './cost.ts';
import { DAY_MS } from './days.ts';
import { percentile } from './histogram.ts';
import { BUCKET, DAY_KEY, MEASURES } from './roll-up-writes.ts';
import { COUNT_NAMES, USAGE_SUMS, type CountName, type UsageDimension } from './roll-ups.ts';

const HOUR_MS = 3_600_000;
const HOURS_PER_DAY = 24;

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
  /** Empty: requests whose client is null. */
  client?: string | null;
  /** `nextCursor` of the previous page; omitted or null: the first page. */
  cursor?: string | null;
  /** Reads only this many groups, those with the most tokens, sorted by them. Only without hour and day. */
  top?: number | undefined;
}

/** Accurate to 2%. */
type Percentiles<Name extends string> = Record<Name, number>;

/** The usage of an hour, a day or the whole period, as the management API returns it. */
export type UsageJson = Record<CountName, number> & {
  /** The start of the hour. Dimensions that were not requested are null. */
  hour: string | null;
  day: string | null;
  model: string | null;
  key_id: string | null;
  account_id: string | null;
  /** Null also for requests that an earlier version recorded. */
  client: string | null;
  /** Null also if no user created the key, or it is unknown. */
  member_id: string | null;
  /** Null also for keys without tags. */
  tag: string | null;
  cost_usd: string;
  /** Time to first token in milliseconds; null: no response had a token, or the query is by client, member or tag. */
  ttft_ms: Percentiles<'p50' | 'p95'> | null;
  /** Tokens per second after the first token; p5 is the slow end. Null: no response had two tokens, or as above. */
  tokens_per_second: Percentiles<'p50' | 'p5'> | null;
};

const COLUMNS = {
  hour: 'hour',
  day: 'day',
  model: 'model',
  key: 'key_id',
  account: 'account_id',
  client: 'client',
  member: 'member_id',
  tag: 'tag',
} as const;

/** The requested dimensions of a row. */
interface RowKey {
  hour?: number;
  day?: number;
  model?: string;
  key_id?: string;
  account_id?: string;
  /** Empty: null in the ledger. */
  client?: string;
  /** Empty: no user, or none is known. */
  member_id?: string;
  /** Empty: none. */
  tag?: string;
}

type Counts = RowKey & Record<CountName, number>;
type SelectedSums = Counts & { high_pico: string; low_pico: string };
type Sums = Counts & { costPico: bigint };

/** Days that are read together or, for hourly usage, hours of one day. */
interface UsageWindow extends UsageQuery {
  /** In hours since 1970-01-01: from `fromHour`, before `toHour`. Only for hourly usage. */
  fromHour?: number;
  toHour?: number;
  /** Conditions of the rows on the page. */
  onPage: readonly RawBuilder<unknown>[];
}

/** Maximum rows on a page of usage. */
const MAX_USAGE_ROWS = 5000;

/** Hours per query of hourly usage. A query also reads the hour before, in which requests may have arrived. */
const HOURS_PER_READ = 3;

/** Rows of the daily roll-ups per query, except that a day is not split. */
const ROLL_UPS_PER_READ = 500;

interface UsagePage {
  rows: UsageJson[];
  /** Cursor of the next page; null on the last page. */
  nextCursor: string | null;
}

/**
 * Sums usage from the daily roll-ups: exact, and fast with millions of requests. Hourly usage is read from the
 * requests themselves. A page has at most `maxRows` rows, sorted by the dimensions in the order of `by`; a page by hour
 * covers at most `MAX_HOURLY_DAYS` days. A later page has later hours or days and, in the same hour or day, later
 * groups. Reads a little at a time, so that other reports need not wait, and stops when `signal` aborts. Rejects with a
 * `DatabaseError`, the signal's reason, or a `ServiceError` `invalid_value` (param `cursor`).
 */
export async function readUsagePage(
  database: Database,
  query: UsageQuery,
  { signal, maxRows = MAX_USAGE_ROWS }: { signal?: AbortSignal; maxRows?: number } = {},
): Promise<UsagePage> {
  const { by, top } = query;
  const first = query.cursor == null ? null : parsePosition(query.cursor, by);
  const page = windowFrom(query, first);
  const isPagedByTime = isHourly(query) || by.includes('day');
  let next: Position | null = page.toDay < query.toDay ? [page.toDay * HOURS_PER_DAY] : null;
  let compare = orderOf(by);
  if (top !== undefined) {
    const largest = await inTurn(database, () => readLargest(database, page, top));
    if (largest.length === 0) return { rows: [], nextCursor: null };
    const ranks = new Map(largest.map((row, rank) => [rowName(row, by), rank]));
    compare = (a, b) => (ranks.get(rowName(a, by)) ?? 0) - (ranks.get(rowName(b, by)) ?? 0);
    page.onPage = [isOneOf(largest, by)];
  } else if (!isPagedByTime && by.length > 0 && maxRows < Infinity) {
    next = await inTurn(database, () => readNextPosition(database, page, maxRows));
    if (next !== null) page.onPage = [...page.onPage, isBefore(next, by)];
  }
  const sums = new Map<string, Sums>();
  const histograms = new Map<string, Histograms>();
  for await (const window of windowsOf(database, page)) {
    signal?.throwIfAborted();
    const left = isPagedByTime ? maxRows - sums.size : Infinity;
    // The row after the last one on the page shows where the next page begins.
    const found = await inTurn(database, () => readSums(database, window, left + 1));
    const following = found[left];
    if (following !== undefined) {
      next = positionOf(following, by);
      window.onPage = [...window.onPage, isBefore(next, by)];
    }
    for (const row of found.slice(0, left)) addSums(sums, row, by);
    signal?.throwIfAborted();
    if (left > 0 && !isByClient(query) && !isByOwner(query))
      await inTurn(database, () => readHistograms(database, window, histograms));
    if (following !== undefined) break;
  }
  const rows = await toRows([...sums.values()].toSorted(compare), histograms, by);
  return { rows, nextCursor: next && formatPosition(next) };
}

/** Returns the days of a page that begins at `first`. */
function windowFrom(query: UsageQuery, first: Position | null): UsageWindow {
  const { by } = query;
  const [time] = pageOrder(by);
  const [start = 0] = first ?? [];
  const startDay =
    time === 'hour' ? Math.floor(Number(start) / HOURS_PER_DAY) : time === 'day' ? Number(start) : 0;
  const fromDay = first === null ? query.fromDay : Math.max(query.fromDay, startDay);
  // There are no requests before 1970.
  const endDay = isHourly(query) ? Math.max(fromDay, 0) + MAX_HOURLY_DAYS : Infinity;
  return {
    ...query,
    fromDay,
    toDay: Math.min(query.toDay, endDay),
    onPage: first === null ? [] : [sql`${tupleOf(by, first)} >= (${sql.join(first)})`],
  };
}

/**
 * The first dimensions of a row, in the order of `pageOrder`, where a page begins. Without the last dimensions, it
 * begins with the first row that has these.
 */
type Position = readonly (string | number)[];

/** The order of rows across pages: by time first. */
function pageOrder(by: UsageQuery['by']): UsageDimension[] {
  return TIMES.filter((time) => by.includes(time)).concat(
    by.filter((dimension) => !TIMES.includes(dimension)),
  );
}

const TIMES: readonly UsageDimension[] = ['hour', 'day'];

/** Selects as many dimensions as a position has. */
function tupleOf(by: UsageQuery['by'], { length }: Position) {
  const columns = pageOrder(by).slice(0, length);
  return sql`(${sql.join(columns.map((dimension) => sql.ref(COLUMNS[dimension])))})`;
}

function isBefore(position: Position, by: UsageQuery['by']) {
  return sql`${tupleOf(by, position)} < (${sql.join(position)})`;
}

function isOneOf(rows: readonly RowKey[], by: UsageQuery['by']) {
  const positions = rows.map((row) => positionOf(row, by));
  return sql`${tupleOf(by, pageOrder(by))} in (values ${sql.join(positions.map((position) => sql`(${sql.join(position)})`))})`;
}

function positionOf(row: RowKey, by: UsageQuery['by']): Position {
  // Rows have the dimensions of the query.
  return pageOrder(by).map((dimension) => row[COLUMNS[dimension]] as string | number);
}

function formatPosition(position: Position): string {
  return Buffer.from(JSON.stringify(position)).toString('base64url');
}

/** Parses the cursor of a query with these dimensions. */
function parsePosition(cursor: string, by: UsageQuery['by']): Position {
  const order = pageOrder(by);
  const position = jsonOf(Buffer.from(cursor, 'base64url').toString());
  const isValid =
    Array.isArray(position) &&
    position.length > 0 &&
    position.length <= order.length &&
    position.every((value, index) =>
      TIMES.includes(order[index] as UsageDimension)
        ? Number.isInteger(value) && Math.abs(value as number) <= MAX_HOUR
        : typeof value === 'string' && !value.includes('\0') && value.isWellFormed(),
    );
  if (!isValid) throw invalidCursor();
  return position as (string | number)[];
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** The last hour of a day that a query can name: the year 9999 and a day. */
const MAX_HOUR = 2_932_897 * HOURS_PER_DAY;

/** Returns the position of the first row after `count` rows; null: there are no more. */
async function readNextPosition(
  database: Database,
  page: UsageWindow,
  count: number,
): Promise<Position | null> {
  const columns = columnsOf(page.by);
  const { rows } = await sql<RowKey>`
    select ${columns} from ${usageOf(database, page)} where ${filtered(page)} ${groupedBy(page, columns)}
    order by ${columns} limit 1 offset ${sql.lit(count)}`.execute(database.reports);
  return rows[0] === undefined ? null : positionOf(rows[0], page.by);
}

/** Returns the groups with the most tokens, largest first. */
async function readLargest(database: Database, page: UsageWindow, count: number): Promise<RowKey[]> {
  const columns = columnsOf(page.by);
  const { rows } = await sql<RowKey>`
    select ${columns} from ${usageOf(database, page)} where ${filtered(page)} ${groupedBy(page, columns)}
    order by sum(prompt_tokens + completion_tokens) desc, sum(requests) desc, ${columns}
    limit ${sql.lit(count)}`.execute(database.reports);
  return rows;
}

/** The latest read of usage of each database. */
const reads = new WeakMap<Database['reports'], Promise<void>>();

/**
 * Reads usage after all earlier reads, so that other queries wait for one read and not for one of each report. If the
 * database does not respond to a read, the reads that wait for it fail, too: their waits would add up.
 */
function inTurn<T>({ reports }: Database, read: () => Promise<T>): Promise<T> {
  const result = (reads.get(reports) ?? Promise.resolve()).then(read);
  const ended = result.then(
    () => {},
    (error: unknown) => {
      if (error instanceof DatabaseError && error.fault === 'unavailable') throw error;
    },
  );
  reads.set(reports, ended);
  ended.catch(() => {
    if (reads.get(reports) === ended) reads.delete(reports);
  });
  return result;
}

/** Yields the parts of the period in order. Yields at least one, because a total has a row even without requests. */
async function* windowsOf(database: Database, query: UsageWindow): AsyncGenerator<UsageWindow, void> {
  if (isHourly(query)) {
    for (let day = Math.max(query.fromDay, 0); day < query.toDay; day++) {
      for (let hour = day * HOURS_PER_DAY; hour < (day + 1) * HOURS_PER_DAY; hour += HOURS_PER_READ) {
        yield { ...query, fromDay: day, toDay: day + 1, fromHour: hour, toHour: hour + HOURS_PER_READ };
      }
    }
    return;
  }
  const { rows: days } = await sql<{ day: number; count: number }>`
    select day, count(*) as count from ${usageOf(database, query)} where ${filtered(query)} group by day order by day`.execute(
    database.reports,
  );
  let { fromDay } = query;
  let count = 0;
  for (const { day, count: rows } of days) {
    if (count > 0 && count + rows > ROLL_UPS_PER_READ) {
      yield { ...query, fromDay, toDay: day };
      [fromDay, count] = [day, 0];
    }
    count += rows;
  }
  yield { ...query, fromDay };
}

function addSums(
  all: Map<string, Sums>,
  { high_pico, low_pico, ...row }: SelectedSums,
  by: UsageQuery['by'],
): void {
  const costPico = wholeSum({ high_pico, low_pico });
  const known = all.get(rowName(row, by));
  if (known === undefined) {
    all.set(rowName(row, by), { ...row, costPico });
    return;
  }
  for (const count of COUNT_NAMES) known[count] += row[count];
  known.costPico += costPico;
}

/** Orders rows like the database: numbers by value, and text by character. */
function orderOf(by: UsageQuery['by']): (a: RowKey, b: RowKey) => number {
  return (a, b) => {
    for (const dimension of by) {
      const [left, right] = [a[COLUMNS[dimension]] ?? '', b[COLUMNS[dimension]] ?? ''];
      if (left !== right) return left < right ? -1 : 1;
    }
    return 0;
  };
}

async function toRows(
  sums: readonly Sums[],
  histograms: ReadonlyMap<string, Histograms>,
  by: UsageQuery['by'],
): Promise<UsageJson[]> {
  const rows: UsageJson[] = [];
  for (const row of sums) {
    const { ttft = [], speed = [] } = histograms.get(rowName(row, by)) ?? {};
    // `COUNT_NAMES` has all names.
    const counts = Object.fromEntries(COUNT_NAMES.map((name) => [name, row[name]])) as Record<
      CountName,
      number
    >;
    rows.push({
      hour: row.hour === undefined ? null : new Date(row.hour * HOUR_MS).toISOString(),
      day: row.day === undefined ? null : new Date(row.day * DAY_MS).toISOString().slice(0, 10),
      model: row.model ?? null,
      key_id: row.key_id ?? null,
      account_id: row.account_id ?? null,
      client: row.client || null,
      member_id: row.member_id || null,
      tag: row.tag || null,
      ...counts,
      cost_usd: usdText(row.costPico),
      ttft_ms: await percentiles(ttft, { p50: 0.5, p95: 0.95 }),
      tokens_per_second: await percentiles(speed, { p50: 0.5, p5: 0.05 }),
    });
  }
  return rows;
}

/** Sums up to `limit` rows, in the order of pages. */
async function readSums(database: Database, query: UsageWindow, limit: number): Promise<SelectedSums[]> {
  const by = pageOrder(query.by).map((dimension) => sql.ref(COLUMNS[dimension]));
  const columns = sql.join(by);
  const grouped = by.length > 0 ? sql`${groupedBy(query, columns)} order by ${columns}` : sql``;
  const sum = (column: string) =>
    sql`cast(coalesce(sum(${sql.ref(column)}), 0) as bigint) as ${sql.ref(column)}`;
  const { rows } = await sql<SelectedSums>`
    select ${sql.join([...by, ...COUNT_NAMES.map(sum), sql.raw(halfSums('cost_pico'))])}
    from ${usageOf(database, query)} where ${filtered(query)} ${grouped}
    ${limit === Infinity ? sql`` : sql`limit ${sql.lit(limit)}`}`.execute(database.reports);
  return rows;
}

function columnsOf(by: UsageQuery['by']) {
  return sql.join(by.map((dimension) => sql.ref(COLUMNS[dimension])));
}

/** Groups usage. A group without a client can be empty, because `clientUsage` subtracts. */
function groupedBy(query: UsageQuery, columns: RawBuilder<unknown>) {
  const having = isByClient(query) ? sql`having sum(requests) > 0` : sql``;
  return sql`group by ${columns} ${having}`;
}

/** Returns the table of sums that a query reads. */
function usageOf(database: Database, query: UsageWindow) {
  const ofClients = isByClient(query) ? clientUsage(query) : sql`usage_days as usage`;
  const sums = isHourly(query) ? hourlyUsage(query) : ofClients;
  return isByOwner(query) ? ownerUsage(database, query, sums) : sums;
}

/** Adds the owner of the key to sums and, if the query is by tag, each of its tags: a row with several tags is repeated. */
function ownerUsage({ location }: Database, { by }: UsageWindow, sums: RawBuilder<unknown>) {
  const texts =
    location.kind === 'sqlite'
      ? sql`json_each(keys.tags) as tag`
      : sql`json_array_elements_text(keys.tags::json) as tag(value)`;
  const [tag, tags] = by.includes('tag')
    ? [sql`tag.value`, sql`left join ${texts} on true`]
    : [sql`''`, sql``];
  return sql`(
    select usage.*, coalesce(${tag}, '') as tag,
      case when keys.created_by like 'user:%' then substr(keys.created_by, 6) else '' end as member_id
    from ${sums} left join keys on keys.id = usage.key_id ${tags}) as usage`;
}

/** Encoded histograms of one row, to be added up. */
type Histograms = Record<'ttft' | 'speed', string[]>;

/** The order of the primary key of `latency_days`. */
const KEY_ORDER: readonly UsageDimension[] = ['account', 'day', 'model', 'key'];

/**
 * Adds the histograms of each row, by `rowName`. Groups by a prefix of the primary key, because the database would
 * otherwise sort all buckets, which takes longer than the rest of the query.
 */
async function readHistograms(
  database: Database,
  query: UsageWindow,
  all: Map<string, Histograms>,
): Promise<void> {
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
  for (const row of rows) {
    const name = rowName(row, query.by);
    const histograms = all.get(name) ?? { ttft: [], speed: [] };
    all.set(name, histograms);
    if (row.ttft !== null) histograms.ttft.push(row.ttft);
    if (row.speed !== null) histograms.speed.push(row.speed);
  }
}

function isHourly({ by }: UsageQuery): boolean {
  return by.includes('hour');
}

/** Whether a query needs the client of each request. Latencies are not kept by client, which has no effect on them. */
function isByClient({ by, client }: UsageQuery): boolean {
  return by.includes('client') || client != null;
}

/** Whether a query needs what is known of the key. Latencies are not read for it. */
function isByOwner({ by }: UsageQuery): boolean {
  return by.includes('member') || by.includes('tag');
}

type HistogramRow = RowKey & Record<keyof Histograms, string | null>;

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

/** Returns the percentiles at `shares`, to five digits, or null if there are no values. */
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
  const values = Object.entries<number>(shares).map(([name, share]) => [
    name,
    Number(percentile(ascending, share)?.toPrecision(5)),
  ]);
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

function filtered({
  fromDay,
  toDay,
  fromHour,
  toHour,
  accountId,
  keyId,
  model,
  client,
  onPage,
}: UsageWindow) {
  const conditions = [sql`day >= ${fromDay}`, sql`day < ${toDay}`, ...onPage];
  if (fromHour !== undefined) conditions.push(sql`hour >= ${fromHour}`, sql`hour < ${toHour}`);
  if (accountId != null) conditions.push(sql`account_id = ${accountId}`);
  if (keyId != null) conditions.push(sql`key_id = ${keyId}`);
  if (model != null) conditions.push(sql`model = ${model}`);
  if (client != null) conditions.push(sql`client = ${client}`);
  return sql.join(conditions, sql` and `);
}

function rowName(key: RowKey, by: readonly UsageDimension[]): string {
  return by.map((dimension) => key[COLUMNS[dimension]]).join('\n');
}

/** Selects the ended rows of these hours, with the columns of `usage_days` plus the column `hour`. */
function hourlyUsage(hours: UsageWindow) {
  const sums = USAGE_SUMS.map((sum) => sql`${sql.raw(sum.sql)} as ${sql.ref(sum.name)}`);
  return sql`(
    select ${KEY}, ${sql.join(sums)} from ledger where ${inRange(hours)} and state <> 'open') as usage`;
}

/**
 * Selects the sums of these days, with the columns of `client_days`. The client is empty for those of `usage_days` that are
 * not in `client_days`.
 */
function clientUsage(query: UsageWindow) {
  const key = sql.join(DAY_KEY.map((column) => sql.ref(column)));
  const sums = USAGE_SUMS.map(({ name }) => sql.ref(name));
  const negative = USAGE_SUMS.map(({ name }) => sql`-${sql.ref(name)}`);
  const where = filtered({ ...query, client: null, onPage: [] });
  return sql`(
    select ${key}, client, ${sql.join(sums)} from client_days where ${where}
    union all select ${key}, '', ${sql.join(sums)} from usage_days where ${where}
    union all select ${key}, '', ${sql.join(negative)} from client_days where ${where}) as usage`;
}

/** Selects the histograms of these hours, with the columns of `latency_days` plus the column `hour`. */
function hourlyLatencies(hours: UsageWindow) {
  return sql`(
    select hour, day, model, key_id, account_id, measure, bucket, count(*) as count from (
      select ${KEY}, measure, ${sql.raw(BUCKET)} as bucket
      from ledger cross join ${sql.raw(MEASURES)} where ${inRange(hours)}
    ) as latencies where bucket is not null
    group by hour, day, model, key_id, account_id, measure, bucket) as hours`;
}

const KEY = sql`
  started_at / ${sql.lit(HOUR_MS)} as hour, started_at / ${sql.lit(DAY_MS)} as day, model, key_id, account_id,
  coalesce(client, '') as client`;

/**
 * An ID contains the time at which the request arrived. A request starts when its body is complete, which takes at most an
 * hour (`limits.bodyMs`).
 */
function inRange({ fromHour = 0, toHour = 0, accountId }: UsageWindow) {
  const first = firstIdAt((fromHour - 1) * HOUR_MS);
  const ofAccount = accountId == null ? sql`` : sql`account_id = ${accountId} and`;
  return sql`${ofAccount} id >= ${first} and id < ${firstIdAt(toHour * HOUR_MS)}`;
}
