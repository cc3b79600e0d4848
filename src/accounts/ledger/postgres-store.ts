import { CHECKPOINTED, ENDED, INITIAL, OPENED, SETTLED, type Column } from '../../database/ledger-columns.ts';
import type { Database } from '../../database/database.ts';
import { dropPartitions, ensurePartitions } from '../../database/partitions.ts';
import type { Secret } from '../../support/secret.ts';
import { PostgresConnection, type QueryFunction, type Statement } from './postgres-connection.ts';
import { addRollUps, ROLLED_UP, WAIVED_VALUES, waiveRollUps } from './roll-up-writes.ts';
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

  async waive(ids: readonly string[]): Promise<void> {
    await this.#write((query) => query(WAIVE, [[...ids]]));
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
  if (batch.ended.length > 0) queries.push([INSERT_ENDED, columns(batch.ended)]);
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

/** The columns that the roll-ups read, of a row that was written. */
const ROW = ROLLED_UP.map((name) => `ledger.${name}`).join(', ');

/** Common table expressions of statements that write roll-ups. */
function expressions(statements: readonly string[]): string {
  return statements.map((sql, index) => `rolled_up_${index} as (${sql})`).join(', ');
}

const ROLL_UP = expressions(addRollUps('ended'));

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
    with ${LIVE}, ended as (
      insert into ledger (${namesOf(ENDED)}, epoch) select given.*, live.epoch from ${given(ENDED)}, live
      returning ${ROW}),
    ${ROLL_UP}
    ${IS_LIVE}`,
};

const CHECKPOINT: Statement = {
  name: 'ledger_checkpoint',
  text: `
    with ${LIVE}, written as (
      update ledger set ${assignments(CHECKPOINTED)}
      from ${given(CHECKPOINTED)}, live
      where ledger.id = given.id and ledger.epoch = live.epoch and ${IS_OPEN})
    ${IS_LIVE}`,
};

/** Also returns the IDs whose rows were not open. */
const SETTLE: Statement = {
  name: 'ledger_settle',
  text: `
    with ${LIVE}, ended as (
      update ledger set ${assignments(SETTLED)}
      from ${given(SETTLED)}, live
      where ledger.id = given.id and ledger.epoch = live.epoch and ${IS_OPEN}
      returning ledger.id, ${ROW}),
    ${ROLL_UP}
    ${IS_LIVE}, array (select unnest($2::text[]) except select id from ended) as missing`,
};

/** Cancels the charge of rows that were settled, by any instance. */
const WAIVE: Statement = {
  name: 'ledger_waive',
  text: `
    with billed as materialized (
      select * from ledger where id = any ($1::text[]) and state = 'settled' and billed = 1 for update),
    written as (update ledger set ${WAIVED_VALUES} from billed where ledger.id = billed.id),
    ${expressions(waiveRollUps('billed'))}
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
    returning ${ROW}),
  ${ROLL_UP}
  select count(*) as rows from ended`;

const DELETE_DEAD = `delete from instances where live = 0 and lease_until < $1::int8`;

function namesOf(columns: readonly Column[]): string {
  return columns.map(({ name }) => name).join(', ');
}

/** Assigns all columns but the first, which is the ID. */
function assignments([, ...columns]: readonly Column[]): string {
  return columns.map(({ name }) => `${name} = given.${name}`).join(', ');
}

/** Converts the array parameters, which start at `$2`, to rows. */
function given(columns: readonly Column[]): string {
  const arrays = columns.map(({ kind }, index) => `$${index + 2}::${kind === 'text' ? 'text' : 'int8'}[]`);
  return `unnest(${arrays.join(', ')}) as given (${namesOf(columns)})`;
}
