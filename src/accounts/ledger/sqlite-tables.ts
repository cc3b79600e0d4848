import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { CHECKPOINTED, OPENED, SETTLED, type Columns } from '../../database/ledger-columns.ts';
import { RollUps, USAGE_SUMS, type EndedRow } from './roll-ups.ts';
import type { BatchAnswer } from './store.ts';
import { INITIAL, namesOf } from './columns.ts';
import { placeOf, WAIVED, type Batch, type Owner, type Value } from './write.ts';

/** How long a transaction waits for another process's lock, in milliseconds. */
const BUSY_MS = 5000;

/** Pages in the write-ahead log after which a commit brings them into the database. */
const CHECKPOINT_PAGES = 4000;

/** Rows that one call of `prune` deletes at most, so that the writes behind it wait no longer than for a batch. */
export const PRUNED_AT_ONCE = 1000;

/**
 * The ledger's statements over a SQLite connection of its own, prepared once. Each method is one durable
 * transaction; it throws what `node:sqlite` throws, with nothing written.
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

  beat(epoch: number, leaseMs: number): boolean {
    return this.#transaction(() => this.#statements.beat.run(Date.now() + leaseMs, epoch).changes === 1);
  }

  /** As `LedgerStore.write`. */
  write(epoch: number, batch: Batch): BatchAnswer | null {
    const { open, checkpoint, undelivered } = this.#statements;
    return this.#transaction(() => {
      if (!this.#isLive(epoch)) return null;
      for (const row of batch.opens) open.run(...row, epoch);
      // The id comes first in a row of values and last in the statement.
      for (const [id = null, ...row] of batch.checkpoints) checkpoint.run(...row, id, epoch);
      const lost = this.#settle(epoch, batch);
      for (const id of batch.undelivered) undelivered.run(id, epoch);
      return { lost };
    });
  }

  /** As `LedgerStore.waive`. */
  waive(settles: Batch['settles']): null {
    this.#transaction(() => {
      const rollUps = new RollUps();
      for (const [id, ttft, speed, ...row] of settles) {
        // The columns of RETURNING.
        const told = this.#statements.waive.get(...WAIVED.values(), id) as unknown as Owner | undefined;
        if (told !== undefined) rollUps.waive(ended(told, row), ttft, speed);
      }
      this.#feed(rollUps);
    });
    return null;
  }

  /**
   * As `LedgerStore.reap`: instances whose lease has ended, and those whose process is gone. One with our process
   * id that is older than `processStartedAt` was another process.
   */
  reap(epoch: number, processStartedAt: number): number {
    const now = Date.now();
    const dead = this.#statements.live
      .all()
      // Columns of the statement above.
      .map((row) => row as { epoch: number; lease_until: number; started_at: number; pid: number })
      .filter((instance) => instance.epoch !== epoch)
      .filter(
        ({ lease_until, started_at, pid }) =>
          lease_until < now || (pid === process.pid ? started_at < processStartedAt : !isAlive(pid)),
      );
    if (dead.length === 0) return 0;
    return this.#transaction(() => dead.reduce((sum, instance) => sum + this.#end(instance.epoch, null), 0));
  }

  /** As `LedgerStore.retire`. */
  retire(epoch: number): null {
    this.#transaction(() => this.#end(epoch, Date.now()));
    return null;
  }

  /** Deletes rows that ended and whose ids are before `beforeId`, and instances long dead; the number of rows. */
  prune(beforeId: string, deadBeforeMs: number): number {
    return this.#transaction(() => {
      this.#statements.forget.run(deadBeforeMs);
      return Number(this.#statements.prune.run(beforeId, PRUNED_AT_ONCE).changes);
    });
  }

  #isLive(epoch: number): boolean {
    return this.#statements.isLive.get(epoch) !== undefined;
  }

  #settle(epoch: number, { settles, owners }: Batch): string[] {
    const { settle, settledBy } = this.#statements;
    const lost: string[] = [];
    const rollUps = new RollUps();
    for (const [index, [id, ttft, speed, ...row]] of settles.entries()) {
      const owner = owners[index];
      if (owner !== undefined && settle.run(...row, id, epoch).changes === 1) {
        rollUps.add(ended(owner, row), ttft, speed);
      } else if (settledBy.get(id, epoch) === undefined) lost.push(id);
    }
    this.#feed(rollUps);
    return lost;
  }

  /** Sets an instance dead and settles its open rows as interrupted; their number. */
  #end(epoch: number, endedAt: number | null): number {
    if (this.#statements.bury.run(epoch).changes === 0) return 0;
    const rollUps = new RollUps();
    // The columns of RETURNING.
    const rows = this.#statements.interrupt.all(endedAt, epoch) as unknown as [...Owner, ...Counts][];
    for (const [account, key, model, startedAt, ...counts] of rows) {
      rollUps.add(ended([account, key, model, startedAt], ['interrupted', ...counts]), null, null);
    }
    this.#feed(rollUps);
    return rows.length;
  }

  #feed(rollUps: RollUps): void {
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
      // A full disk has ended the transaction already.
      if (this.#connection.isTransaction) this.#connection.exec('rollback');
      throw error;
    }
  }
}

type Statements = ReturnType<typeof prepare>;

function prepare(connection: DatabaseSync) {
  const opened = namesOf(OPENED);
  const told = 'account_id, key_id, model, started_at';
  return {
    begin: connection.prepare('begin immediate'),
    commit: connection.prepare('commit'),
    register: connection.prepare(
      'insert into instances (live, lease_until, started_at, pid) values (1, ?, ?, ?) returning epoch',
    ),
    beat: connection.prepare('update instances set lease_until = ? where epoch = ? and live = 1'),
    live: connection.prepare('select epoch, lease_until, started_at, pid from instances where live = 1'),
    isLive: connection.prepare('select 1 from instances where epoch = ? and live = 1'),
    bury: connection.prepare('update instances set live = 0 where epoch = ? and live = 1'),
    forget: connection.prepare('delete from instances where live = 0 and lease_until < ?'),
    open: connection.prepare(
      `insert into ledger (${opened.join(', ')}, epoch, ${INITIAL.names})
       values (${opened.map(() => '?').join(', ')}, ?, ${INITIAL.values})`,
    ),
    checkpoint: connection.prepare(
      `update ledger set ${assignments(CHECKPOINTED)} where id = ? and epoch = ? and state = 'open'`,
    ),
    settle: connection.prepare(
      `update ledger set ${assignments(SETTLED)} where id = ? and epoch = ? and state = 'open'`,
    ),
    waive: inArrays(
      connection.prepare(
        `update ledger set ${[...WAIVED.keys()].map((name) => `${name} = ?`).join(', ')}
           where id = ? and state = 'settled' and billed = 1 returning ${told}`,
      ),
    ),
    settledBy: connection.prepare("select 1 from ledger where id = ? and epoch = ? and state = 'settled'"),
    interrupt: inArrays(
      connection.prepare(
        `update ledger set state = 'interrupted', ended_at = ? where epoch = ? and state = 'open' 
           returning ${told}, prompt_tokens, cached_tokens, completion_tokens`,
      ),
    ),
    undelivered: connection.prepare(
      "update ledger set delivered = 0 where id = ? and epoch = ? and state = 'settled'",
    ),
    prune: connection.prepare(
      "delete from ledger where id in (select id from ledger where id < ? and state <> 'open' order by id limit ?)",
    ),
    addUsage: connection.prepare(
      `insert into usage_days (account_id, day, model, key_id, ${USAGE_SUMS.join(', ')})
       values (?, ?, ?, ?, ${USAGE_SUMS.map(() => '?').join(', ')})
       on conflict (account_id, day, model, key_id)
       do update set ${USAGE_SUMS.map((sum) => `${sum} = ${sum} + excluded.${sum}`).join(', ')}`,
    ),
    addLatency: connection.prepare(
      `insert into latency_days (account_id, day, model, key_id, measure, bucket, count)
       values (?, ?, ?, ?, ?, ?, ?)
       on conflict (account_id, day, model, key_id, measure, bucket) do update set count = count + excluded.count`,
    ),
  };
}

function assignments(columns: Columns): string {
  return namesOf(columns)
    .map((name) => `${name} = ?`)
    .join(', ');
}

/** Rows as arrays cost half of what records do. */
function inArrays(statement: StatementSync): StatementSync {
  statement.setReturnArrays(true);
  return statement;
}

type Counts = [promptTokens: number, cachedTokens: number, completionTokens: number];

const STATE = placeOf('state');
const ERROR_CODE = placeOf('errorCode');
const PROMPT_TOKENS = placeOf('promptTokens');
const CACHED_TOKENS = placeOf('cachedTokens');
const COMPLETION_TOKENS = placeOf('completionTokens');
const BILLED = placeOf('billed');
const COST_PICO = placeOf('costPico');

/** What the roll-ups want, from what the row said of its opening and the values it was settled with, all or the first. */
function ended([account_id, key_id, model, started_at]: Owner, settled: readonly Value[]): EndedRow {
  const cost = settled[COST_PICO];
  return {
    account_id,
    key_id,
    model,
    started_at,
    state: settled[STATE] === 'settled' ? 'settled' : 'interrupted',
    error_code: text(settled[ERROR_CODE]),
    prompt_tokens: Number(settled[PROMPT_TOKENS]),
    cached_tokens: Number(settled[CACHED_TOKENS]),
    completion_tokens: Number(settled[COMPLETION_TOKENS]),
    billed: Number(settled[BILLED] ?? 0),
    cost_pico: typeof cost === 'bigint' ? cost : 0n,
  };
}

function text(value: Value | undefined): string | null {
  return typeof value === 'string' ? value : null;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: somebody else's process, and it lives.
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
