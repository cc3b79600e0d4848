import { CHECKPOINTED, INITIAL, OPENED, SETTLED, type Column } from '../../database/ledger-columns.ts';
import type { Database } from '../../database/database.ts';
import { dropPartitions, ensurePartitions } from '../../database/partitions.ts';
import type { Secret } from '../../support/secret.ts';
import { PostgresConnection, type QueryFunction, type Statement } from './postgres-connection.ts';
import { CLIENT_KEY, DAY_KEY, ENDED, USAGE_SUMS, WAIVED } from './roll-ups.ts';
import { KEEP_DEAD_MS, RefusedWriteError, type BatchResult, type LedgerStore } from './store.ts';
import type { Batch, Value } from './write.ts';

/** Statement timeouts of batches and of background work, in milliseconds. */
const WRITE_MS = 5000;
const BACKGROUND_MS = 30_000;

/** The ledger on PostgreSQL. Uses three connections, so that heartbeats wait neither for batches nor for reaping. */
export class PostgresStore implements LedgerStore {
  readonly #database: Database;
  readonly #writer: PostgresConnection;
  readonly #heartbeats: PostgresConnection;
  readonly #background: PostgresConnection;

  constructor(database: Database, url: Secret) {
    this.#database = database;
    this.#writer = new PostgresConnection(url, WRITE_MS);
    this.#heartbeats = new PostgresConnection(url, WRITE_MS);
    this.#background = new PostgresConnection(url, BACKGROUND_MS);
  }

  async register(leaseMs: number): Promise<number> {
    return await this.#background.use(async (query) => {
      const { rows } = await query<{ epoch: number }>(REGISTER, [leaseMs, process.pid]);
      return Number(rows[0]?.epoch);
    });
  }

  async heartbeat(epoch: number, leaseMs: number): Promise<boolean> {
    const { rowCount } = await this.#heartbeats.use((query) => query(HEARTBEAT, [epoch, leaseMs]));
    return rowCount === 1;
  }

  async write(epoch: number, batch: Batch): Promise<BatchResult | null> {
    return await this.#write((query) => write(query, epoch, batch));
  }

  async waive(settles: Batch['settles']): Promise<void> {
    await this.#write((query) => query(WAIVE, columns(settles)));
  }

  async reap(epoch: number): Promise<number> {
    return await this.#background.transaction(async (query) => {
      const { rows } = await query<{ epoch: number }>(EXPIRED, [epoch]);
      return rows.length === 0
        ? 0
        : await interruptInstances(
            query,
            rows.map((row) => row.epoch),
            false,
          );
    });
  }

  async retire(epoch: number): Promise<void> {
    await this.#background.transaction((query) => interruptInstances(query, [epoch], true));
  }

  async maintain(nowMs: number, keepFromMs: number | null): Promise<void> {
    await ensurePartitions(this.#database, nowMs);
    if (keepFromMs !== null) await dropPartitions(this.#database, keepFromMs);
    await this.#background.use((query) => query(DELETE_DEAD, [nowMs - KEEP_DEAD_MS]));
  }

  /** Rejects with a `RefusedWriteError` if the server refuses the values. */
  async #write<T>(work: (query: QueryFunction) => Promise<T>): Promise<T> {
    try {
      return await this.#writer.use(work);
    } catch (error) {
      if (!isRefused(error)) throw error;
      // A new month has begun. Creates its partition, so that later writes succeed.
      if (isPartitionMissing(error)) await ensurePartitions(this.#database, Date.now());
      throw new RefusedWriteError(error.message, { cause: error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      [this.#writer, this.#heartbeats, this.#background].map((one) => one[Symbol.asyncDispose]()),
    );
  }
}

/** Pipelines one statement per kind of write, in a transaction if there is more than one. */
async function write(query: QueryFunction, epoch: number, batch: Batch): Promise<BatchResult | null> {
  const queries: [Statement, readonly unknown[]][] = [];
  if (batch.opens.length > 0) queries.push([OPEN, columns(batch.opens)]);
  if (batch.ended.length > 0) {
    const rows = batch.ended.map(({ opened, settled: [, ...settled] }) => [...opened, ...settled]);
    queries.push([INSERT_ENDED, columns(rows)]);
  }
  if (batch.checkpoints.length > 0) queries.push([CHECKPOINT, columns(batch.checkpoints)]);
  if (batch.settles.length > 0) queries.push([SETTLE, columns(batch.settles)]);
  if (batch.undelivered.length > 0) queries.push([UNDELIVERED, [[...batch.undelivered]]]);
  const together = queries.length > 1;
  if (together) void query('begin');
  const results = queries.map(([statement, values]) =>
    query<{ live: boolean; missing?: string[] }>(statement, [epoch, ...values]),
  );
  if (together) results.push(query('commit'));
  const returned = (await Promise.all(results)).flatMap(({ rows }) => rows);
  if (returned.some(({ live }) => !live)) return null;
  const missing = returned.flatMap((row) => row.missing ?? []);
  if (missing.length === 0) return { lost: [] };
  // This instance may have settled some of these rows in an earlier write whose response did not arrive.
  const { rows } = await query<{ id: string }>(SETTLED_BY, [epoch, missing]);
  const settledHere = new Set(rows.map(({ id }) => id));
  return { lost: missing.filter((id) => !settledHere.has(id)) };
}

/** Marks instances as dead and settles their open rows as interrupted. Returns the number of rows. */
async function interruptInstances(query: QueryFunction, epochs: number[], endsNow: boolean): Promise<number> {
  const { rows } = await query<{ epoch: number }>(MARK_DEAD, [epochs]);
  const ended = rows.map(({ epoch }) => epoch);
  const interrupted = await query<{ rows: number }>(INTERRUPT, [ended, endsNow]);
  return Number(interrupted.rows[0]?.rows);
}

/**
 * Converts rows to one PostgreSQL array literal per column
 * (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO). `pg` takes four times as long.
 */
function columns(rows: readonly (readonly Value[])[]): string[] {
  return (rows[0] ?? []).map((_, index) => `{${rows.map((row) => element(row[index] ?? null)).join(',')}}`);
}

function element(value: Value): string {
  if (value === null) return 'NULL';
  if (typeof value !== 'string') return String(value);
  return `"${/["\\]/.test(value) ? value.replaceAll(/["\\]/g, String.raw`\$&`) : value}"`;
}

/** SQLSTATE classes 22 (data) and 23 (integrity). */
function isRefused(error: unknown): error is Error {
  return error instanceof Error && /^2[23]/.test(stateOf(error));
}

function isPartitionMissing(error: Error): boolean {
  return stateOf(error) === '23514' && causeOf(error).message.startsWith('no partition of relation');
}

function stateOf(error: Error): string {
  const cause = causeOf(error);
  return 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
}

/** Returns the server's error that a `DatabaseError` wraps. */
function causeOf(error: Error): Error {
  return error.cause instanceof Error ? error.cause : error;
}

/**
 * Locks the row of the writing instance (`$1`) until commit. A statement writes nothing if that instance is marked as
 * dead. The lock does not block heartbeats. Reapers skip locked rows.
 */
const LIVE = `live as materialized (
  select epoch from instances where epoch = $1::int8 and live = 1 for key share)`;

/**
 * Equivalent to `state = 'open'`, but keeps the planner from using the index of open rows: it would scan the whole
 * index for each written row.
 */
const IS_OPEN = "ledger.state not in ('settled', 'interrupted')";

const IS_LIVE = 'select exists (select from live) as live';

const NOW_MS = '(extract(epoch from clock_timestamp()) * 1000)::int8';

/** The key of `client_days`, and the columns that the sums read, of a row in `source`. */
const ended = (source: string): string =>
  ['account_id', 'key_id', 'ledger.model', '(ledger.started_at / 86400000)::int4 as day', 'ledger.client']
    .concat(ENDED.map((name) => `${source}.${name}`))
    .join(', ');

/** Adds the daily sums of rows, in two common table expressions. */
const addUsage = (rows: string, times = '1'): string => `
  days as (${addSums('usage_days', DAY_KEY, rows, times)}),
  clients as (${addSums('client_days', CLIENT_KEY, `${rows} where client is not null`, times)})`;

/** Adds sums to the rows of a table, in primary key order to avoid deadlocks between transactions. */
const addSums = (table: string, key: readonly string[], rows: string, times: string): string => `
  insert into ${table} (${[...key, ...USAGE_SUMS.map(({ name }) => name)].join(', ')})
  select ${[...key, ...USAGE_SUMS.map(({ sql }) => `sum(${times} * (${sql}))::int8`)].join(', ')}
  from ${rows} group by ${key.join(', ')} order by ${key.join(', ')}
  on conflict (${key.join(', ')})
  do update set ${USAGE_SUMS.map(({ name }) => `${name} = ${table}.${name} + excluded.${name}`).join(', ')}`;

const LATENCY_KEY = [...DAY_KEY, 'measure', 'bucket'].join(', ');

const addLatencies = (count: string): string => `
  insert into latency_days (${LATENCY_KEY}, count)
  select ${LATENCY_KEY}, ${count}
  from ended cross join lateral (values ('ttft', ttft), ('speed', speed)) as measured (measure, bucket)
  where bucket is not null
  group by ${LATENCY_KEY} order by ${LATENCY_KEY}
  on conflict (${LATENCY_KEY})
  do update set count = latency_days.count + excluded.count`;

/** A column of the parameters. */
type Given = Pick<Column, 'name' | 'kind'>;

const BUCKETS = ['ttft', 'speed'].map((name): Given => ({ name, kind: 'integer' }));
/** The columns of `SettledValues`, in the same order. */
const SETTLEMENT: readonly Given[] = [{ name: 'id', kind: 'text' }, ...BUCKETS, ...SETTLED];

/** The first parameter is the epoch; the others are arrays, one per column. */
const OPEN: Statement = {
  name: 'ledger_open',
  text: `
    with ${LIVE}, written as (
      insert into ledger (${namesOf(OPENED)}, epoch, ${INITIAL.names})
      select given.*, live.epoch, ${INITIAL.values} from ${given(OPENED)}, live)
    ${IS_LIVE}`,
};

/** Inserts settled rows. */
const INSERT_ENDED: Statement = {
  name: 'ledger_insert_ended',
  text: `
    with ${LIVE}, given as materialized (select * from ${given([...OPENED, ...BUCKETS, ...SETTLED])}),
    written as (
      insert into ledger (${namesOf(OPENED)}, epoch, ${namesOf(SETTLED)})
      select ${namesOf(OPENED)}, live.epoch, ${namesOf(SETTLED)} from given, live
      returning id, ${ended('ledger')}),
    ended as (select written.*, given.ttft, given.speed from written join given using (id)),
    ${addUsage('ended')}, latencies as (${addLatencies('count(*)')})
    ${IS_LIVE}`,
};

const CHECKPOINT: Statement = {
  name: 'ledger_checkpoint',
  text: `
    with ${LIVE}, written as (
      update ledger set ${assignments(CHECKPOINTED)}
      from ${given([{ name: 'id', kind: 'text' }, ...CHECKPOINTED])}, live
      where ledger.id = given.id and ledger.epoch = live.epoch and ${IS_OPEN})
    ${IS_LIVE}`,
};

/** Also returns the IDs whose rows were not open. */
const SETTLE: Statement = {
  name: 'ledger_settle',
  text: `
    with ${LIVE}, ended as (
      update ledger set ${assignments(SETTLED)}
      from ${given(SETTLEMENT)}, live
      where ledger.id = given.id and ledger.epoch = live.epoch and ${IS_OPEN}
      returning ledger.id, ${ended('ledger')}, given.ttft, given.speed),
    ${addUsage('ended')}, latencies as (${addLatencies('count(*)')})
    ${IS_LIVE}, array (select unnest($2::text[]) except select id from ended) as missing`,
};

const WAIVED_SQL = new Map(Object.entries<Value>(WAIVED).map(([name, value]) => [name, literal(value)]));

/** Cancels the charge of rows that were settled, by any instance: replaces the rows in the roll-ups by the waived ones. */
const WAIVE: Statement = {
  name: 'ledger_waive',
  text: `
    with ended as (
      update ledger set ${[...WAIVED_SQL].map((pair) => pair.join(' = ')).join(', ')}
      from ${given(SETTLEMENT, 1)}
      where ledger.id = given.id and ledger.state = 'settled' and ledger.billed = 1
      returning ${ended('given')}, given.ttft, given.speed),
    changes as (
      select ${CLIENT_KEY.join(', ')}, -1 as times, ${ENDED.join(', ')} from ended
      union all select ${CLIENT_KEY.join(', ')}, 1, ${ENDED.map((name) => WAIVED_SQL.get(name) ?? name).join(', ')} from ended),
    ${addUsage('changes', 'times')}, latencies as (${addLatencies('-count(*)')})
    select`,
};

const UNDELIVERED: Statement = {
  name: 'ledger_undelivered',
  text: `
    with ${LIVE}, written as (
      update ledger set delivered = 0 from unnest($2::text[]) as given (id), live
      where ledger.id = given.id and ledger.epoch = live.epoch and ledger.state = 'settled')
    ${IS_LIVE}`,
};

/** Selects the IDs in `$2` whose rows this instance has settled. */
const SETTLED_BY: Statement = {
  name: 'ledger_settled_by',
  text: `select id from ledger where id = any ($2::text[]) and epoch = $1::int8 and state = 'settled'`,
};

const REGISTER = `
  insert into instances (live, lease_until, started_at, pid)
  values (1, ${NOW_MS} + $1::int8, ${NOW_MS}, $2::int4) returning epoch`;

const HEARTBEAT: Statement = {
  name: 'ledger_beat',
  text: `update instances set lease_until = ${NOW_MS} + $2::int8 where epoch = $1::int8 and live = 1`,
};

/** Selects instances with an expired lease, except those locked by another reaper or by their own write. */
const EXPIRED = `
  select epoch from instances where live = 1 and lease_until < ${NOW_MS} and epoch <> $1::int8
  for update skip locked`;

/**
 * Waits for the writes of these instances: an update alone would not conflict with the lock of `LIVE`, and `INTERRUPT`
 * would miss the rows of a batch that is not committed yet.
 */
const MARK_DEAD = `
  with locked as materialized (
    select epoch from instances where epoch = any ($1::int8[]) and live = 1 for update)
  update instances set live = 0 from locked where instances.epoch = locked.epoch returning instances.epoch`;

/** Settles the open rows of dead instances. Runs after `MARK_DEAD`, so that it sees their last writes. */
const INTERRUPT = `
  with ended as (
    update ledger set state = 'interrupted', ended_at = case when $2::boolean then ${NOW_MS} end
    where epoch = any ($1::int8[]) and state = 'open'
    returning ${ended('ledger')}),
  ${addUsage('ended')}
  select count(*) as rows from ended`;

const DELETE_DEAD = `delete from instances where live = 0 and lease_until < $1::int8`;

function namesOf(columns: readonly Given[]): string {
  return columns.map(({ name }) => name).join(', ');
}

function assignments(columns: readonly Given[]): string {
  return columns.map(({ name }) => `${name} = given.${name}`).join(', ');
}

function literal(value: Value): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}

/** Converts the array parameters, starting at `$first`, to rows. */
function given(columns: readonly Given[], first = 2): string {
  const arrays = columns.map(
    ({ kind }, index) => `$${index + first}::${kind === 'text' ? 'text' : 'int8'}[]`,
  );
  return `unnest(${arrays.join(', ')}) as given (${namesOf(columns)})`;
}
