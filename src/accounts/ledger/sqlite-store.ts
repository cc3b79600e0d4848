import { CompiledQuery, type Transaction } from 'kysely';
import type { Database } from '../../database/database.ts';
import { DatabaseError, sqliteCode } from '../../database/errors.ts';
import { CHECKPOINTED, INITIAL, OPENED, SETTLED, type Column } from '../../database/ledger-columns.ts';
import { firstIdAt } from '../../database/partitions.ts';
import type { Schema } from '../../database/schema.ts';
import type { SqliteClient } from '../../database/sqlite-client.ts';
import type { BatchStatement } from '../../database/sqlite-connection.ts';
import {
  CLIENT_KEY,
  DAY_KEY,
  ROLLED_UP_BY,
  ENDED,
  RollUps,
  USAGE_SUMS,
  WAIVED,
  type EndedRow,
} from './roll-ups.ts';
import { KEEP_DEAD_MS, RefusedWriteError, type BatchResult, type LedgerStore } from './store.ts';
import {
  SETTLED_AT,
  settledIndex,
  type Batch,
  type SettledValues,
  type UsageKey,
  type Value,
} from './write.ts';

/** Maximum rows that one statement deletes, so that other writes wait no longer than they would for a batch. */
const PRUNE_ROWS = 1000;

/** The ledger on SQLite. Its batches share the connection of the database with everything else. */
export class SqliteStore implements LedgerStore {
  readonly #kysely: Database['kysely'];
  readonly #client: SqliteClient;
  readonly #exclusive: boolean;

  /** `exclusive`: this process holds the service lock, which proves that all other instances have ended. */
  constructor(kysely: Database['kysely'], client: SqliteClient, exclusive = false) {
    this.#kysely = kysely;
    this.#client = client;
    this.#exclusive = exclusive;
  }

  async register(leaseMs: number): Promise<number> {
    const now = Date.now();
    const { epoch } = await this.#kysely
      .insertInto('instances')
      .values({ live: 1, lease_until: now + leaseMs, started_at: now, pid: process.pid })
      .returning('epoch')
      .executeTakeFirstOrThrow();
    return epoch;
  }

  async heartbeat(epoch: number, leaseMs: number): Promise<boolean> {
    const { numUpdatedRows } = await this.#kysely
      .updateTable('instances')
      .set({ lease_until: Date.now() + leaseMs })
      .where('epoch', '=', epoch)
      .where('live', '=', 1)
      .executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  /** Assumes that the rows of all settlements are open. If some are not, nothing is written, and it tries without them. */
  async write(epoch: number, batch: Batch): Promise<BatchResult | null> {
    const lost: string[] = [];
    for (let rest = batch; ;) {
      const missed = await refusing(this.#client.run({ statements: toStatements(epoch, rest) }));
      if (missed === null) return { lost };
      if (missed.sql === IS_LIVE) return null;
      const rows = new Set(missed.rows);
      const isMissed = (_: unknown, index: number) => rows.has(index);
      const isOpen = (_: unknown, index: number) => !rows.has(index);
      lost.push(...(await this.#notSettled(epoch, rest.settles.filter(isMissed))));
      rest = { ...rest, settles: rest.settles.filter(isOpen), usageKeys: rest.usageKeys.filter(isOpen) };
    }
  }

  async waive(settles: Batch['settles']): Promise<void> {
    const waived = this.#kysely.transaction().execute(async (transaction) => {
      const rollUps = new RollUps();
      for (const settled of settles) {
        const [id, ttft, speed] = settled;
        const key = await transaction
          .updateTable('ledger')
          .set(WAIVED)
          .where('id', '=', id)
          .where('state', '=', 'settled')
          .where('billed', '=', 1)
          .returning(ROLLED_UP_BY)
          .executeTakeFirst();
        if (key === undefined) continue;
        const { account_id, key_id, model, started_at, client } = key;
        rollUps.waive(toEndedRow([account_id, key_id, model, started_at, client], settled), ttft, speed);
      }
      await addRollUps(transaction, rollUps);
    });
    await refusing(waived);
  }

  async reap(epoch: number): Promise<number> {
    const dead = await this.#kysely
      .selectFrom('instances')
      .select('epoch')
      .where('live', '=', 1)
      .where('epoch', '<>', epoch)
      .where('lease_until', '<', this.#exclusive ? Number.MAX_SAFE_INTEGER : Date.now())
      .execute();
    if (dead.length === 0) return 0;
    return await this.#kysely.transaction().execute(async (transaction) => {
      let rows = 0;
      for (const instance of dead) rows += await interrupt(transaction, instance.epoch, null);
      return rows;
    });
  }

  async retire(epoch: number): Promise<void> {
    await this.#kysely.transaction().execute((transaction) => interrupt(transaction, epoch, Date.now()));
  }

  async maintain(nowMs: number, keepFromMs: number | null): Promise<void> {
    await this.#kysely
      .deleteFrom('instances')
      .where('live', '=', 0)
      .where('lease_until', '<', nowMs - KEEP_DEAD_MS)
      .execute();
    if (keepFromMs === null) return;
    const ended = this.#kysely
      .selectFrom('ledger')
      .select('id')
      .where('id', '<', firstIdAt(keepFromMs))
      .where('state', '<>', 'open')
      .orderBy('id')
      .limit(PRUNE_ROWS);
    const prune = this.#kysely.deleteFrom('ledger').where('id', 'in', ended);
    // Other writes run between the statements.
    while ((await prune.executeTakeFirst()).numDeletedRows === BigInt(PRUNE_ROWS));
  }

  /** Returns the IDs of those settlements that this instance has not written. */
  async #notSettled(epoch: number, settles: Batch['settles']): Promise<string[]> {
    const ids = settles.map(([id]) => id);
    const rows = await this.#kysely
      .selectFrom('ledger')
      .select('id')
      .where('id', 'in', ids)
      .where('epoch', '=', epoch)
      .where('state', '=', 'settled')
      .execute();
    const settled = new Set(rows.map(({ id }) => id));
    return ids.filter((id) => !settled.has(id));
  }

  /** The connection belongs to the database. */
  async [Symbol.asyncDispose](): Promise<void> {}
}

const IS_LIVE = 'select 1 from instances where epoch = ?1 and live = 1';

// The first parameter of the statements of a batch is the epoch. The others are a row of the batch as it is, because
// copying it would cost more than binding the values that a statement does not use.
const OPEN = `insert into ledger (epoch, ${namesOf(OPENED)}, ${INITIAL.names})
  values (?1, ${parameters(OPENED, 2)}, ${INITIAL.values})`;
const INSERT_ENDED = `insert into ledger (epoch, ${namesOf(OPENED)}, ${namesOf(SETTLED)})
  values (?1, ${parameters(OPENED, 2)}, ${parameters(SETTLED, 2 + OPENED.length + SETTLED_AT)})`;
const OWN = 'where id = ?2 and epoch = ?1 and state =';
const CHECKPOINT = `update ledger set ${assignments(CHECKPOINTED, 3)} ${OWN} 'open'`;
const SETTLE = `update ledger set ${assignments(SETTLED, 2 + SETTLED_AT)} ${OWN} 'open'`;
const UNDELIVERED = `update ledger set delivered = 0 ${OWN} 'settled'`;

const INTERRUPT = `update ledger set state = 'interrupted', ended_at = ? where epoch = ? and state = 'open'
  returning ${[...ROLLED_UP_BY, ...ENDED].join(', ')}`;
const ADD_USAGE = addition('usage_days', DAY_KEY, USAGE_SUMS);
const ADD_CLIENT_USAGE = addition('client_days', CLIENT_KEY, USAGE_SUMS);
const ADD_LATENCY = addition('latency_days', [...DAY_KEY, 'measure', 'bucket'], [{ name: 'count' }]);

/** Inserts a row, or adds to the sums of the row with its key. */
function addition(table: string, key: readonly string[], sums: readonly Named[]): string {
  const columns = [...key.map((name) => ({ name })), ...sums];
  return `insert into ${table} (${namesOf(columns)}) values (${parameters(columns, 1)})
    on conflict (${key.join(', ')}) do update set ${list(sums, (name) => `${name} = ${name} + excluded.${name}`)}`;
}

function toStatements(epoch: number, batch: Batch): BatchStatement[] {
  const rollUps = new RollUps();
  for (const { settled, usageKey } of batch.ended) add(rollUps, settled, usageKey);
  for (const [index, settled] of batch.settles.entries()) add(rollUps, settled, batch.usageKeys[index]);
  const first = [epoch];
  const statements = [
    { sql: IS_LIVE, first, rows: [[]], required: true },
    { sql: OPEN, first, rows: batch.opens },
    { sql: INSERT_ENDED, first, rows: batch.ended.map(({ opened, settled }) => opened.concat(settled)) },
    { sql: CHECKPOINT, first, rows: batch.checkpoints },
    { sql: SETTLE, first, rows: batch.settles, required: true },
    { sql: ADD_USAGE, rows: rollUps.days },
    { sql: ADD_CLIENT_USAGE, rows: rollUps.clients },
    { sql: ADD_LATENCY, rows: rollUps.latencies },
    { sql: UNDELIVERED, first, rows: batch.undelivered.map((id) => [id]) },
  ];
  return statements.filter(({ rows }) => rows.length > 0);
}

function add(rollUps: RollUps, settled: SettledValues, usageKey: UsageKey | undefined): void {
  if (usageKey !== undefined) rollUps.add(toEndedRow(usageKey, settled), settled[1], settled[2]);
}

/** Marks an instance as dead and settles its open rows as interrupted. Returns the number of these rows. */
async function interrupt(
  transaction: Transaction<Schema>,
  epoch: number,
  endedAt: number | null,
): Promise<number> {
  const { numUpdatedRows } = await transaction
    .updateTable('instances')
    .set({ live: 0 })
    .where('epoch', '=', epoch)
    .where('live', '=', 1)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) return 0;
  const { rows } = await transaction.executeQuery<EndedRow>(CompiledQuery.raw(INTERRUPT, [endedAt, epoch]));
  const rollUps = new RollUps();
  // An open row costs nothing.
  for (const row of rows) rollUps.add({ ...row, cost_pico: 0n }, null, null);
  await addRollUps(transaction, rollUps);
  return rows.length;
}

async function addRollUps(transaction: Transaction<Schema>, rollUps: RollUps): Promise<void> {
  for (const row of rollUps.days) await transaction.executeQuery(CompiledQuery.raw(ADD_USAGE, row));
  for (const row of rollUps.clients) await transaction.executeQuery(CompiledQuery.raw(ADD_CLIENT_USAGE, row));
  for (const row of rollUps.latencies) await transaction.executeQuery(CompiledQuery.raw(ADD_LATENCY, row));
}

/** SQLite result codes for values that it never accepts: TOOBIG, CONSTRAINT, MISMATCH, RANGE. */
const REFUSED: ReadonlySet<number> = new Set([18, 19, 20, 25]);

/** Rejects with a `RefusedWriteError` if SQLite refuses the values. */
async function refusing<T>(write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    const isRefused =
      error instanceof TypeError ||
      (error instanceof DatabaseError && REFUSED.has((sqliteCode(error) ?? 0) & 0xff));
    throw isRefused ? new RefusedWriteError(error.message, { cause: error }) : error;
  }
}

const ENDED_VALUES = ENDED.map((name) => ({ name, index: SETTLED_AT + settledIndex(name) }));

/** Combines the key of a row with its settled values for the roll-ups. */
function toEndedRow(
  [account_id, key_id, model, started_at, client]: UsageKey,
  settled: SettledValues,
): EndedRow {
  const row: Record<string, Value | undefined> = { account_id, key_id, model, started_at, client };
  for (const { name, index } of ENDED_VALUES) row[name] = settled[index];
  // `ENDED` has the other columns.
  return row as unknown as EndedRow;
}

type Named = Pick<Column, 'name'>;

function list(columns: readonly Named[], toSql: (name: string, index: number) => string): string {
  return columns.map(({ name }, index) => toSql(name, index)).join(', ');
}

function namesOf(columns: readonly Named[]): string {
  return list(columns, (name) => name);
}

/** Numbered parameters for columns, from `?first`. */
function parameters(columns: readonly Named[], first: number): string {
  return list(columns, (_, index) => `?${first + index}`);
}

function assignments(columns: readonly Named[], first: number): string {
  return list(columns, (name, index) => `${name} = ?${first + index}`);
}
