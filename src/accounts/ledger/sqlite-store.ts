import { CompiledQuery } from 'kysely';
import type { Database } from '../../database/database.ts';
import { DatabaseError, sqliteCode } from '../../database/errors.ts';
import { CHECKPOINTED, ENDED, INITIAL, OPENED, SETTLED, type Column } from '../../database/ledger-columns.ts';
import { firstIdAt } from '../../database/partitions.ts';
import type { Transaction } from '../../database/schema.ts';
import type { SqliteClient } from '../../database/sqlite-client.ts';
import type { BatchStatement } from '../../database/sqlite-connection.ts';
import { addRollUps, waiveRollUps, WAIVED_VALUES } from './roll-up-writes.ts';
import { KEEP_DEAD_MS, RefusedWriteError, type BatchResult, type LedgerStore } from './store.ts';
import type { Batch } from './write.ts';

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
      rest = { ...rest, settles: rest.settles.filter(isOpen) };
    }
  }

  async waive(ids: readonly string[]): Promise<void> {
    const rows = [[JSON.stringify(ids)]];
    await refusing(this.#client.run({ statements: WAIVE.map((sql) => ({ sql, rows })) }));
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

// The first parameter of the statements of a batch is the epoch. The others are a row of the batch: the ID is `?2`.
const OPEN = `insert into ledger (epoch, ${namesOf(OPENED)}, ${INITIAL.names})
  values (?1, ${parameters(OPENED)}, ${INITIAL.values})`;
const INSERT_ENDED = `insert into ledger (epoch, ${namesOf(ENDED)}) values (?1, ${parameters(ENDED)})`;
const OWN = 'where id = ?2 and epoch = ?1 and state =';
const CHECKPOINT = `update ledger set ${assignments(CHECKPOINTED)} ${OWN} 'open'`;
const SETTLE = `update ledger set ${assignments(SETTLED)} ${OWN} 'open'`;
const UNDELIVERED = `update ledger set delivered = 0 ${OWN} 'settled'`;

// These have one parameter: the IDs of rows, as JSON.
const LISTED = 'id in (select value from json_each(?1))';
const ROLL_UP = addRollUps(`(select * from ledger where ${LISTED}) as ended`);
const IS_BILLED = `${LISTED} and state = 'settled' and billed = 1`;
const WAIVE = [
  ...waiveRollUps(`(select * from ledger where ${IS_BILLED}) as ended`),
  `update ledger set ${WAIVED_VALUES} where ${IS_BILLED}`,
];

const INTERRUPT = `update ledger set state = 'interrupted', ended_at = ? where epoch = ? and state = 'open' returning id`;

function toStatements(epoch: number, batch: Batch): BatchStatement[] {
  const first = [epoch];
  const ended = [...batch.ended, ...batch.settles].map(([id]) => id);
  const endedIds = ended.length === 0 ? [] : [[JSON.stringify(ended)]];
  const statements = [
    { sql: IS_LIVE, first, rows: [[]], required: true },
    { sql: OPEN, first, rows: batch.opens },
    { sql: INSERT_ENDED, first, rows: batch.ended },
    { sql: CHECKPOINT, first, rows: batch.checkpoints },
    { sql: SETTLE, first, rows: batch.settles, required: true },
    ...ROLL_UP.map((sql) => ({ sql, rows: endedIds })),
    { sql: UNDELIVERED, first, rows: batch.undelivered.map((id) => [id]) },
  ];
  return statements.filter(({ rows }) => rows.length > 0);
}

/** Marks an instance as dead and settles its open rows as interrupted. Returns the number of these rows. */
async function interrupt(transaction: Transaction, epoch: number, endedAt: number | null): Promise<number> {
  const { numUpdatedRows } = await transaction
    .updateTable('instances')
    .set({ live: 0 })
    .where('epoch', '=', epoch)
    .where('live', '=', 1)
    .executeTakeFirst();
  if (numUpdatedRows === 0n) return 0;
  const interrupted = CompiledQuery.raw(INTERRUPT, [endedAt, epoch]);
  const { rows } = await transaction.executeQuery<{ id: string }>(interrupted);
  const ids = JSON.stringify(rows.map(({ id }) => id));
  for (const sql of ROLL_UP) await transaction.executeQuery(CompiledQuery.raw(sql, [ids]));
  return rows.length;
}

/** SQLite result codes for values that it never accepts: TOOBIG, CONSTRAINT, MISMATCH, RANGE. */
const REFUSED: ReadonlySet<number> = new Set([18, 19, 20, 25]);

function isRefused(error: unknown): error is Error {
  if (!(error instanceof DatabaseError)) return error instanceof TypeError;
  // `sum` has no code of its own for a sum that exceeds 64 bits.
  return REFUSED.has((sqliteCode(error) ?? 0) & 0xff) || error.message.includes('integer overflow');
}

/** Rejects with a `RefusedWriteError` if SQLite refuses the values. */
async function refusing<T>(write: Promise<T>): Promise<T> {
  try {
    return await write;
  } catch (error) {
    throw isRefused(error) ? new RefusedWriteError(error.message, { cause: error }) : error;
  }
}

function namesOf(columns: readonly Column[]): string {
  return columns.map(({ name }) => name).join(', ');
}

function parameters(columns: readonly Column[]): string {
  return columns.map((_, index) => `?${index + 2}`).join(', ');
}

/** Assigns all columns but the first, which is the ID. */
function assignments(columns: readonly Column[]): string {
  const all = columns.map(({ name }, index) => `${name} = ?${index + 2}`);
  return all.slice(1).join(', ');
}
