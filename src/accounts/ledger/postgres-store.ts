import type { Database } from '../../database/database.ts';
import { dropPartitions, ensurePartitions } from '../../database/partitions.ts';
import type { Secret } from '../../secret.ts';
import { DAY_MS } from './days.ts';
import { PostgresConnection, type Query, type Statement } from './postgres-connection.ts';
import * as statements from './postgres-statements.ts';
import { DEAD_KEPT_MS, RefusedWriteError, type BatchAnswer, type LedgerStore } from './store.ts';
import type { Batch, Value } from './write.ts';

/** How long a batch may take, and what is done beside it, in milliseconds. */
const WRITE_MS = 5000;
const BESIDE_MS = 30_000;

/** The ledger on PostgreSQL, over three connections: a heartbeat stands behind no batch, and neither behind a reaping. */
export class PostgresStore implements LedgerStore {
  readonly #database: Database;
  readonly #writer: PostgresConnection;
  readonly #heart: PostgresConnection;
  readonly #beside: PostgresConnection;

  constructor(database: Database, url: Secret) {
    this.#database = database;
    this.#writer = new PostgresConnection(url, WRITE_MS);
    this.#heart = new PostgresConnection(url, WRITE_MS);
    this.#beside = new PostgresConnection(url, BESIDE_MS);
  }

  async register(leaseMs: number): Promise<number> {
    return await this.#beside.use(async (query) => {
      const { rows } = await query<{ epoch: number }>(statements.REGISTER, [leaseMs, process.pid]);
      return Number(rows[0]?.epoch);
    });
  }

  async beat(epoch: number, leaseMs: number): Promise<boolean> {
    const { rowCount } = await this.#heart.use((query) => query(statements.BEAT, [epoch, leaseMs]));
    return rowCount === 1;
  }

  async write(epoch: number, batch: Batch): Promise<BatchAnswer | null> {
    return await this.#write((query) => write(query, epoch, batch));
  }

  async waive(settles: Batch['settles']): Promise<void> {
    await this.#write((query) => query(statements.WAIVE, columns(settles)));
  }

  async reap(epoch: number): Promise<number> {
    return await this.#beside.transaction(async (query) => {
      const { rows } = await query<{ epoch: number }>(statements.EXPIRED, [epoch]);
      return rows.length === 0
        ? 0
        : await end(
            query,
            rows.map((row) => row.epoch),
            false,
          );
    });
  }

  async retire(epoch: number): Promise<void> {
    await this.#beside.transaction((query) => end(query, [epoch], true));
  }

  async upkeep(nowMs: number, keepDays: number | undefined): Promise<void> {
    await ensurePartitions(this.#database, nowMs);
    if (keepDays !== undefined) await dropPartitions(this.#database, nowMs - keepDays * DAY_MS);
    await this.#beside.use((query) => query(statements.FORGET, [nowMs - DEAD_KEPT_MS]));
  }

  /** Rejects with a `RefusedWriteError` when the server refuses what the statements hold. */
  async #write<T>(work: (query: Query) => Promise<T>): Promise<T> {
    try {
      return await this.#writer.use(work);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // The month began before its partition was created.
      if (isPartitionMissing(error)) await ensurePartitions(this.#database, Date.now());
      throw new RefusedWriteError(error.message, { cause: error });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#writer, this.#heart, this.#beside].map((one) => one[Symbol.asyncDispose]()));
  }
}

/** One statement for each kind of write, all of them sent at once; in a transaction where there is more than one. */
async function write(query: Query, epoch: number, batch: Batch): Promise<BatchAnswer | null> {
  const asked: [Statement, readonly unknown[]][] = [];
  if (batch.opens.length > 0) asked.push([statements.OPEN, columns(batch.opens)]);
  if (batch.checkpoints.length > 0) asked.push([statements.CHECKPOINT, columns(batch.checkpoints)]);
  if (batch.settles.length > 0) asked.push([statements.SETTLE, columns(batch.settles)]);
  if (batch.undelivered.length > 0) asked.push([statements.UNDELIVERED, [[...batch.undelivered]]]);
  const together = asked.length > 1;
  if (together) void query('begin');
  const answers = asked.map(([statement, values]) =>
    query<{ live: boolean; missing?: string[] }>(statement, [epoch, ...values]),
  );
  if (together) answers.push(query('commit'));
  const told = (await Promise.all(answers)).flatMap(({ rows }) => rows);
  if (told.some(({ live }) => !live)) return null;
  const missing = told.flatMap((row) => row.missing ?? []);
  if (missing.length === 0) return { lost: [] };
  // Settled all the same where it was this copy's doing, whose answer was lost on the way.
  const { rows } = await query<{ id: string }>(statements.SETTLED_BY, [epoch, missing]);
  const ours = new Set(rows.map(({ id }) => id));
  return { lost: missing.filter((id) => !ours.has(id)) };
}

/** Sets instances dead and settles their open rows as interrupted; the number of rows. */
async function end(query: Query, epochs: number[], endsNow: boolean): Promise<number> {
  const { rows } = await query<{ epoch: number }>(statements.BURY, [epochs]);
  const buried = rows.map(({ epoch }) => epoch);
  const interrupted = await query<{ rows: number }>(statements.INTERRUPT, [buried, endsNow]);
  return Number(interrupted.rows[0]?.rows);
}

/**
 * Rows of values as one array a column, each in PostgreSQL's own words
 * (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO): `pg` takes four times as long for them.
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
function isRefusal(error: unknown): error is Error {
  return error instanceof Error && /^2[23]/.test(stateOf(error));
}

/** What PostgreSQL says of a row that no partition takes. */
function isPartitionMissing(error: Error): boolean {
  return stateOf(error) === '23514' && causeOf(error).message.startsWith('no partition of relation');
}

function stateOf(error: Error): string {
  const cause = causeOf(error);
  return 'code' in cause && typeof cause.code === 'string' ? cause.code : '';
}

/** The server's own error under ours. */
function causeOf(error: Error): Error {
  return error.cause instanceof Error ? error.cause : error;
}
