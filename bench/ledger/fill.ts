import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';
import { bucketOf } from '../../src/accounts/ledger/histogram.ts';
import { DAY_MS, dayOf } from '../../src/accounts/ledger/days.ts';
import {
  CLIENT_KEY,
  DAY_KEY,
  RollUps,
  USAGE_SUMS,
  type EndedRow,
} from '../../src/accounts/ledger/roll-ups.ts';
import { ensurePartitions } from '../../src/database/partitions.ts';
import type { TestDatabase } from '../../test/support/servers.ts';

/** The largest account, and its share of all rows. */
export const LARGE = 'acct_large';
const LARGE_SHARE = 0.2;
const ACCOUNTS = 300;
export const MODELS = ['bench/small', 'bench/medium', 'bench/large'];
/** The error of one in ten thousand requests. */
export const RARE = 'engine_unavailable';
/** Number of days of the rows, up to now. */
export const DAYS = 60;

const CHUNK = 20_000;

const COLUMNS = {
  id: 'text',
  account_id: 'text',
  key_id: 'text',
  model: 'text',
  started_at: 'int8',
  ended_at: 'int8',
  first_token_at: 'int8',
  prompt_tokens: 'int8',
  completion_tokens: 'int8',
  cost_pico: 'int8',
  error_code: 'text',
  http_status: 'int8',
  billed: 'int8',
};
type SqlValues = (string | number | null)[];

/** Values of all rows, about as long as real ones. */
const CLIENT = 'OpenAI Python';
const CONSTANTS = {
  client: `'${CLIENT}'`,
  endpoint: "'chat'",
  streamed: '1',
  epoch: '0',
  state: "'settled'",
  plan: "'standard'",
  limits: `'${JSON.stringify([['account', null, 'tokensPerMinute', 10_000_000, 9_999_000]])}'`,
  reserved_tokens: '4096',
  reserved_pico: '2457600000',
  price_prompt: '150000',
  price_completion: '600000',
  replica: "'engine'",
  attempts: '1',
  cached_tokens: '0',
  usage_source: "'engine'",
  finish_reason: "'stop'",
  delivered: '1',
};

interface BulkWriter extends AsyncDisposable {
  writeRows(rows: readonly SqlValues[]): Promise<void>;
  writeRollUps(rollUps: RollUps): Promise<void>;
  /** Updates the statistics of the tables, as the database does over time. */
  finish(): Promise<void>;
}

/** Writes rows and their roll-ups directly to the tables. */
export async function fill(
  database: TestDatabase,
  count: number,
  onProgress: (done: number) => void,
): Promise<void> {
  const from = Date.now() - DAYS * DAY_MS;
  for (let month = from; month < Date.now() + 31 * DAY_MS; month += 28 * DAY_MS)
    await ensurePartitions(database, month);
  await using writer =
    database.location.kind === 'sqlite'
      ? sqliteWriter(database.location.path)
      : await postgresWriter(database);
  let [day, rollUps] = [dayOf(from), new RollUps()];
  for (let done = 0; done < count;) {
    const rows: SqlValues[] = [];
    while (rows.length < CHUNK && done < count) {
      const atMs = from + (done / count) * DAYS * DAY_MS;
      if (dayOf(atMs) > day) break;
      rows.push(createRow(done++, atMs, rollUps));
    }
    await writer.writeRows(rows);
    if (rows.length < CHUNK) {
      // The day is complete.
      await writer.writeRollUps(rollUps);
      [day, rollUps] = [day + 1, new RollUps()];
    }
    onProgress(done);
  }
  await writer.writeRollUps(rollUps);
  await writer.finish();
}

function createRow(number: number, atMs: number, rollUps: RollUps): SqlValues {
  const startedAt = Math.floor(atMs);
  const large = Math.random() < LARGE_SHARE;
  const account = large ? LARGE : `acct_${Math.floor(Math.random() * ACCOUNTS)}`;
  const key = `${account}_key_${Math.floor(Math.random() * (large ? 5 : 2))}`;
  const model = MODELS[Math.floor(Math.random() ** 2 * MODELS.length)] ?? '';
  const failed = Math.random() < 1e-4;
  const [prompt, completion] = [50 + Math.floor(Math.random() * 2000), 2 + Math.floor(Math.random() * 500)];
  const ttftMs = 40 * Math.exp(Math.random() * 3);
  const speed = 20 + Math.random() * 80;
  const firstTokenAt = Math.floor(startedAt + ttftMs);
  const endedAt = Math.floor(firstTokenAt + (completion / speed) * 1000);
  const cost = failed ? 0 : prompt * 150_000 + completion * 600_000;
  const ended: EndedRow = {
    account_id: account,
    key_id: key,
    model,
    started_at: startedAt,
    client: CLIENT,
    state: 'settled',
    error_code: failed ? RARE : null,
    prompt_tokens: prompt,
    cached_tokens: 0,
    cache_miss_tokens: 0,
    completion_tokens: completion,
    reasoning_tokens: 0,
    billed: failed ? 0 : 1,
    cost_pico: BigInt(cost),
  };
  rollUps.add(ended, failed ? null : bucketOf(ttftMs), failed ? null : bucketOf(speed));
  const hex = startedAt.toString(16).padStart(12, '0');
  const tail = number.toString(16).padStart(15, '0');
  const id = `${hex.slice(0, 8)}-${hex.slice(8)}-7${tail.slice(0, 3)}-8000-${tail.slice(3)}`;
  const times = [startedAt, endedAt, firstTokenAt];
  return [
    id,
    account,
    key,
    model,
    ...times,
    prompt,
    completion,
    cost,
    ended.error_code,
    failed ? 503 : 200,
    ended.billed,
  ];
}

const NAMES = [...Object.keys(COLUMNS), ...Object.keys(CONSTANTS)].join(', ');
const CONSTANT_VALUES = Object.values(CONSTANTS).join(', ');
const SUM_NAMES = USAGE_SUMS.map(({ name }) => name);
const USAGE_COLUMNS = [...DAY_KEY, ...SUM_NAMES];
const CLIENT_COLUMNS = [...CLIENT_KEY, ...SUM_NAMES];
const LATENCY_WIDTH = 7;
const ADD_USAGE = `insert into usage_days (${USAGE_COLUMNS.join(', ')})`;
const ADD_CLIENT_USAGE = `insert into client_days (${CLIENT_COLUMNS.join(', ')})`;
const ADD_LATENCY = 'insert into latency_days (account_id, day, model, key_id, measure, bucket, count)';

function sqliteWriter(path: string): BulkWriter {
  const connection = new DatabaseSync(path);
  connection.exec('pragma synchronous = off; pragma cache_size = -500000');
  const placeholders = (count: number) => Array.from({ length: count }, () => '?').join(', ');
  const insert = (sql: string, rows: readonly unknown[][]) => {
    const statement = connection.prepare(sql);
    connection.exec('begin');
    for (const values of rows) statement.run(...(values as SqlValues));
    connection.exec('commit');
  };
  return {
    async writeRows(rows) {
      const values = `${placeholders(Object.keys(COLUMNS).length)}, ${CONSTANT_VALUES}`;
      insert(`insert into ledger (${NAMES}) values (${values})`, [...rows]);
    },
    async writeRollUps({ days, clients, latencies }) {
      insert(`${ADD_USAGE} values (${placeholders(USAGE_COLUMNS.length)})`, days);
      insert(`${ADD_CLIENT_USAGE} values (${placeholders(CLIENT_COLUMNS.length)})`, clients);
      insert(`${ADD_LATENCY} values (${placeholders(LATENCY_WIDTH)})`, latencies);
    },
    async finish() {
      connection.exec('analyze; pragma wal_checkpoint(truncate)');
    },
    async [Symbol.asyncDispose]() {
      connection.close();
    },
  };
}

async function postgresWriter(database: TestDatabase): Promise<BulkWriter> {
  const client = new Client({ connectionString: database.url?.reveal() });
  await client.connect();
  await client.query('set synchronous_commit = off');
  const insert = async (
    into: string,
    types: readonly string[],
    constants: string,
    rows: readonly unknown[][],
  ) => {
    for (let start = 0; start < rows.length; start += CHUNK) {
      const chunk = rows.slice(start, start + CHUNK);
      const arrays = types.map((_, column) => chunk.map((values) => values[column]));
      const parameters = types.map((type, column) => `$${column + 1}::${type}[]`).join(', ');
      await client.query(`${into} select *${constants} from unnest(${parameters})`, arrays);
    }
  };
  const key = ['text', 'int4', 'text', 'text'];
  const sums = SUM_NAMES.map(() => 'int8');
  return {
    writeRows: (rows) =>
      insert(`insert into ledger (${NAMES})`, Object.values(COLUMNS), `, ${CONSTANT_VALUES}`, [...rows]),
    async writeRollUps({ days, clients, latencies }) {
      await insert(ADD_USAGE, [...key, ...sums], '', days);
      await insert(ADD_CLIENT_USAGE, [...key, 'text', ...sums], '', clients);
      await insert(ADD_LATENCY, [...key, 'text', 'int4', 'int8'], '', latencies);
    },
    async finish() {
      for (const table of ['ledger', 'usage_days', 'client_days', 'latency_days'])
        await client.query(`vacuum analyze ${table}`);
    },
    [Symbol.asyncDispose]: () => client.end(),
  };
}
