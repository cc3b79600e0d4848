import { DatabaseSync } from 'node:sqlite';
import { Client } from 'pg';
import { DAY_MS, dayOf } from '../../src/accounts/ledger/days.ts';
import { addRollUps } from '../../src/accounts/ledger/roll-up-writes.ts';
import { ensurePartitions, firstIdAt } from '../../src/database/partitions.ts';
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
  run(sql: string): Promise<void>;
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
  let day = dayOf(from);
  for (let done = 0; done < count;) {
    const rows: SqlValues[] = [];
    while (rows.length < CHUNK && done < count) {
      const atMs = from + (done / count) * DAYS * DAY_MS;
      if (dayOf(atMs) > day) break;
      rows.push(createRow(done++, atMs));
    }
    await writer.writeRows(rows);
    if (rows.length < CHUNK) {
      // The day is complete.
      await addDay(writer, day++);
    }
    onProgress(done);
  }
  await addDay(writer, day);
  await writer.finish();
}

/** Adds the rows of a day to the roll-ups. */
async function addDay(writer: BulkWriter, day: number): Promise<void> {
  const [first, next] = [day, day + 1].map((one) => firstIdAt(one * DAY_MS));
  const rows = `(select * from ledger where id >= '${first}' and id < '${next}') as ended`;
  for (const sql of addRollUps(rows)) await writer.run(sql);
}

function createRow(number: number, atMs: number): SqlValues {
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
    failed ? RARE : null,
    failed ? 503 : 200,
    failed ? 0 : 1,
  ];
}

const NAMES = [...Object.keys(COLUMNS), ...Object.keys(CONSTANTS)].join(', ');
const CONSTANT_VALUES = Object.values(CONSTANTS).join(', ');

function sqliteWriter(path: string): BulkWriter {
  const connection = new DatabaseSync(path);
  connection.exec('pragma synchronous = off; pragma cache_size = -500000');
  const placeholders = Object.keys(COLUMNS)
    .map(() => '?')
    .join(', ');
  const values = `${placeholders}, ${CONSTANT_VALUES}`;
  const insert = connection.prepare(`insert into ledger (${NAMES}) values (${values})`);
  return {
    async writeRows(rows) {
      connection.exec('begin');
      for (const row of rows) insert.run(...row);
      connection.exec('commit');
    },
    async run(sql) {
      connection.exec(sql);
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
  const parameters = Object.values(COLUMNS).map((type, column) => `$${column + 1}::${type}[]`);
  const insert = `
    insert into ledger (${NAMES}) select *, ${CONSTANT_VALUES} from unnest(${parameters.join(', ')})`;
  return {
    async writeRows(rows) {
      const arrays = parameters.map((_, column) => rows.map((values) => values[column]));
      await client.query(insert, arrays);
    },
    async run(sql) {
      await client.query(sql);
    },
    async finish() {
      for (const table of ['ledger', 'usage_days', 'client_days', 'latency_days'])
        await client.query(`vacuum analyze ${table}`);
    },
    [Symbol.asyncDispose]: () => client.end(),
  };
}
