import type { Database } from '../../database/database.ts';
import { dropPartitions, ensurePartitions } from '../../database/partitions.ts';
import type { Secret } from '../../secret.ts';
import { DAY_MS } from './days.ts';
import { PostgresConnection, type QueryFunction, type Statement } from './postgres-connection.ts';
import * as statements from './postgres-statements.ts';
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
      const { rows } = await query<{ epoch: number }>(statements.REGISTER, [leaseMs, process.pid]);
      return Number(rows[0]?.epoch);
    });
  }

  async heartbeat(epoch: number, leaseMs: number): Promise<boolean> {
    const { rowCount } = await this.#heartbeats.use((query) => query(statements.HEARTBEAT, [epoch, leaseMs]));
    return rowCount === 1;
  }

  async write(epoch: number, batch: Batch): Promise<BatchResult | null> {
    return await this.#write((query) => write(query, epoch, batch));
  }

  async waive(settles: Batch['settles']): Promise<void> {
    await this.#write((query) => query(statements.WAIVE, columns(settles)));
  }

  async reap(epoch: number): Promise<number> {
    return await this.#background.transaction(async (query) => {
      const { rows } = await query<{ epoch: number }>(statements.EXPIRED, [epoch]);
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

  async maintain(nowMs: number, keepDays: number | undefined): Promise<void> {
    await ensurePartitions(this.#database, nowMs);
    if (keepDays !== undefined) await dropPartitions(this.#database, nowMs - keepDays * DAY_MS);
    await this.#background.use((query) => query(statements.DELETE_DEAD, [nowMs - KEEP_DEAD_MS]));
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
  if (batch.opens.length > 0) queries.push([statements.OPEN, columns(batch.opens)]);
  if (batch.ended.length > 0) {
    const rows = batch.ended.map(({ opened, settled: [, ...settled] }) => [...opened, ...settled]);
    queries.push([statements.INSERT_ENDED, columns(rows)]);
  }
  if (batch.checkpoints.length > 0) queries.push([statements.CHECKPOINT, columns(batch.checkpoints)]);
  if (batch.settles.length > 0) queries.push([statements.SETTLE, columns(batch.settles)]);
  if (batch.undelivered.length > 0) queries.push([statements.UNDELIVERED, [[...batch.undelivered]]]);
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
  const { rows } = await query<{ id: string }>(statements.SETTLED_BY, [epoch, missing]);
  const settledHere = new Set(rows.map(({ id }) => id));
  return { lost: missing.filter((id) => !settledHere.has(id)) };
}

/** Marks instances as dead and settles their open rows as interrupted. Returns the number of rows. */
async function interruptInstances(query: QueryFunction, epochs: number[], endsNow: boolean): Promise<number> {
  const { rows } = await query<{ epoch: number }>(statements.MARK_DEAD, [epochs]);
  const ended = rows.map(({ epoch }) => epoch);
  const interrupted = await query<{ rows: number }>(statements.INTERRUPT, [ended, endsNow]);
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
