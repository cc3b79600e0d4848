import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { CHECKPOINTED, INITIAL, OPENED, SETTLED, type Column } from '../../database/ledger-columns.ts';
import { ENDED, RollUps, USAGE_SUMS, WAIVED, type EndedRow } from './roll-ups.ts';
import type { BatchResult } from './store.ts';
import { settledIndex, type Batch, type UsageKey, type Value } from './write.ts';

/** Milliseconds that a transaction waits for the lock of another process. */
const BUSY_MS = 5000;

/** Pages in the write-ahead log after which a commit runs a checkpoint. */
const CHECKPOINT_PAGES = 4000;

/** Maximum rows that one call of `prune` deletes, so that other writes wait no longer than they would for a batch. */
export const PRUNE_ROWS = 1000;

/**
 * Prepared statements of the ledger on their own SQLite connection. Each method is one durable transaction; it
 * throws the errors of `node:sqlite` with nothing written.
 */
export class SqliteTables {
  readonly #connection: DatabaseSync;
  readonly #statements: Statements;

  constructor(path: string) {
    this.#connection = new DatabaseSync(path, { timeout: BUSY_MS });
    try {
      this.#connection.exec(
        `pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = ${CHECKPOINT_PAGES}`,
      );
      this.#statements = prepare(this.#connection);
    } catch (error) {
      this.#connection.close();
      throw error;
    }
  }

  close(): void {
    this.#connection.close();
  }

  register(leaseMs: number, pid: number): number {
    const now = Date.now();
    return this.#transaction(() => Number(this.#statements.register.get(now + leaseMs, now, pid)?.epoch));
  }

  heartbeat(epoch: number, leaseMs: number): boolean {
    return this.#transaction(() => this.#statements.heartbeat.run(Date.now() + leaseMs, epoch).changes === 1);
  }

  /** See `LedgerStore.write`. */
  write(epoch: number, batch: Batch): BatchResult | null {
    const { open, insertEnded, checkpoint, undelivered } = this.#statements;
    return this.#transaction(() => {
      if (!this.#isLive(epoch)) return null;
      for (const row of batch.opens) open.run(...row, epoch);
      const rollUps = new RollUps();
      for (const { opened, settled, usageKey } of batch.ended) {
        const [, ttft, speed, ...row] = settled;
        insertEnded.run(...opened, epoch, ...row);
        rollUps.add(toEndedRow(usageKey, row), ttft, speed);
      }
      // The ID is the first of the values, but the last parameter of the statement.
      for (const [id = null, ...row] of batch.checkpoints) checkpoint.run(...row, id, epoch);
      const lost = this.#settle(epoch, batch, rollUps);
      this.#addRollUps(rollUps);
      for (const id of batch.undelivered) undelivered.run(id, epoch);
      return { lost };
    });
  }

  /** See `LedgerStore.waive`. */
  waive(settles: Batch['settles']): null {
    this.#transaction(() => {
      const rollUps = new RollUps();
      for (const [id, ttft, speed, ...row] of settles) {
        // The columns of RETURNING.
        const key = this.#statements.waive.get(...Object.values(WAIVED), id) as unknown as
          | UsageKey
          | undefined;
        if (key !== undefined) rollUps.waive(toEndedRow(key, row), ttft, speed);
      }
      this.#addRollUps(rollUps);
    });
    return null;
  }

  /** Like `LedgerStore.reap`. `exclusive`: every other instance is dead, whatever its lease. */
  reap(epoch: number, exclusive: boolean): number {
    const expiredBefore = exclusive ? Number.MAX_SAFE_INTEGER : Date.now();
    // Columns of the statement.
    const dead = this.#statements.expired.all(epoch, expiredBefore) as unknown as { epoch: number }[];
    if (dead.length === 0) return 0;
    return this.#transaction(() =>
      dead.reduce((sum, instance) => sum + this.#interrupt(instance.epoch, null), 0),
    );
  }

  /** See `LedgerStore.retire`. */
  retire(epoch: number): null {
    this.#transaction(() => this.#interrupt(epoch, Date.now()));
    return null;
  }

  /** Deletes ended rows with IDs before `beforeId`, and old dead instances. Returns the number of rows. */
  prune(beforeId: string, deadBeforeMs: number): number {
    return this.#transaction(() => {
      this.#statements.deleteDead.run(deadBeforeMs);
      return Number(this.#statements.prune.run(beforeId, PRUNE_ROWS).changes);
    });
  }

  #isLive(epoch: number): boolean {
    return this.#statements.isLive.get(epoch) !== undefined;
  }

  /** Settles open rows and adds them to `rollUps`. Returns the lost ones: see `BatchResult`. */
  #settle(epoch: number, { settles, usageKeys }: Batch, rollUps: RollUps): string[] {
    const { settle, settledBy } = this.#statements;
    const lost: string[] = [];
    for (const [index, [id, ttft, speed, ...row]] of settles.entries()) {
      const usageKey = usageKeys[index];
      if (usageKey !== undefined && settle.run(...row, id, epoch).changes === 1) {
        rollUps.add(toEndedRow(usageKey, row), ttft, speed);
      } else if (settledBy.get(id, epoch) === undefined) lost.push(id);
    }
    return lost;
  }

  /** Marks an instance as dead and settles its open rows as interrupted. Returns the number of these rows. */
  #interrupt(epoch: number, endedAt: number | null): number {
    if (this.#statements.markDead.run(epoch).changes === 0) return 0;
    const rollUps = new RollUps();
    // The columns of RETURNING.
    const rows = this.#statements.interrupt.all(endedAt, epoch) as unknown as EndedRow[];
    // An open row costs nothing.
    for (const row of rows) rollUps.add({ ...row, cost_pico: 0n }, null, null);
    this.#addRollUps(rollUps);
    return rows.length;
  }

  #addRollUps(rollUps: RollUps): void {
    for (const row of rollUps.days) this.#statements.addUsage.run(...row);
    for (const row of rollUps.latencies) this.#statements.addLatency.run(...row);
  }

  #transaction<T>(work: () => T): T {
    this.#statements.begin.run();
    try {
      const result = work();
      this.#statements.commit.run();
      return result;
    } catch (error) {
      // SQLite itself rolls back when the disk is full.
      if (this.#connection.isTransaction) this.#connection.exec('rollback');
      throw error;
    }
  }
}

type Statements = ReturnType<typeof prepare>;

function prepare(connection: DatabaseSync) {
  const opened = OPENED.map(({ name }) => name);
  const ended = [...opened, 'epoch', ...SETTLED.map(({ name }) => name)];
  const sums = USAGE_SUMS.map(({ name }) => name);
  const key = 'account_id, key_id, model, started_at';
  return {
    begin: connection.prepare('begin immediate'),
    commit: connection.prepare('commit'),
    register: connection.prepare(
      'insert into instances (live, lease_until, started_at, pid) values (1, ?, ?, ?) returning epoch',
    ),
    heartbeat: connection.prepare('update instances set lease_until = ? where epoch = ? and live = 1'),
    expired: connection.prepare(
      'select epoch from instances where live = 1 and epoch <> ? and lease_until < ?',
    ),
    isLive: connection.prepare('select 1 from instances where epoch = ? and live = 1'),
    markDead: connection.prepare('update instances set live = 0 where epoch = ? and live = 1'),
    deleteDead: connection.prepare('delete from instances where live = 0 and lease_until < ?'),
    open: connection.prepare(
      `insert into ledger (${opened.join(', ')}, epoch, ${INITIAL.names})
       values (${opened.map(() => '?').join(', ')}, ?, ${INITIAL.values})`,
    ),
    insertEnded: connection.prepare(
      `insert into ledger (${ended.join(', ')}) values (${ended.map(() => '?').join(', ')})`,
    ),
    checkpoint: connection.prepare(
      `update ledger set ${assignments(CHECKPOINTED)} where id = ? and epoch = ? and state = 'open'`,
    ),
    settle: connection.prepare(
      `update ledger set ${assignments(SETTLED)} where id = ? and epoch = ? and state = 'open'`,
    ),
    waive: inArrays(
      connection.prepare(
        `update ledger set ${Object.keys(WAIVED)
          .map((name) => `${name} = ?`)
          .join(', ')}
           where id = ? and state = 'settled' and billed = 1 returning ${key}`,
      ),
    ),
    settledBy: connection.prepare("select 1 from ledger where id = ? and epoch = ? and state = 'settled'"),
    interrupt: connection.prepare(
      `update ledger set state = 'interrupted', ended_at = ? where epoch = ? and state = 'open'
         returning ${key}, ${ENDED.join(', ')}`,
    ),
    undelivered: connection.prepare(
      "update ledger set delivered = 0 where id = ? and epoch = ? and state = 'settled'",
    ),
    prune: connection.prepare(
      "delete from ledger where id in (select id from ledger where id < ? and state <> 'open' order by id limit ?)",
    ),
    addUsage: connection.prepare(
      `insert into usage_days (account_id, day, model, key_id, ${sums.join(', ')})
       values (?, ?, ?, ?, ${sums.map(() => '?').join(', ')})
       on conflict (account_id, day, model, key_id)
       do update set ${sums.map((sum) => `${sum} = ${sum} + excluded.${sum}`).join(', ')}`,
    ),
    addLatency: connection.prepare(
      `insert into latency_days (account_id, day, model, key_id, measure, bucket, count)
       values (?, ?, ?, ?, ?, ?, ?)
       on conflict (account_id, day, model, key_id, measure, bucket) do update set count = count + excluded.count`,
    ),
  };
}

function assignments(columns: readonly Column[]): string {
  return columns.map(({ name }) => `${name} = ?`).join(', ');
}

/** Arrays cost half as much as objects. */
function inArrays(statement: StatementSync): StatementSync {
  statement.setReturnArrays(true);
  return statement;
}

const ENDED_VALUES = ENDED.map((name) => ({ name, index: settledIndex(name) }));

/** Combines the key of a row with its settled values for the roll-ups. */
function toEndedRow([account_id, key_id, model, started_at]: UsageKey, settled: readonly Value[]): EndedRow {
  const row: Record<string, Value | undefined> = { account_id, key_id, model, started_at };
  for (const { name, index } of ENDED_VALUES) row[name] = settled[index];
  // `ENDED` has the other columns.
  return row as unknown as EndedRow;
}
