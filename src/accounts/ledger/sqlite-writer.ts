/**
 * The thread that writes the ledger on SQLite: it owns a connection, takes calls one after another and answers each
 * once. A commit waits for the disk, and nothing but this thread waits with it.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { DatabaseError, asDatabaseError } from '../../database/errors.ts';
import { assertInPlace } from '../../database/sqlite-files.ts';
import type { SqliteThreadData } from '../../database/sqlite-reader.ts';
import type { SqliteAnswer, SqliteCall } from './sqlite-store.ts';
import { SqliteTables } from './sqlite-tables.ts';

/** Result codes of SQLite for what it will never take: TOOBIG, CONSTRAINT, MISMATCH, RANGE. */
const REFUSED: ReadonlySet<number> = new Set([18, 19, 20, 25]);

// Set by `SqliteStore`.
const { path, files } = workerData as SqliteThreadData;
// This file is only ever run as a thread.
const port = parentPort!;
let tables: SqliteTables | null = null;

port.on('message', ({ sequence, call }: { sequence: number; call: SqliteCall }) => {
  port.postMessage({ sequence, answer: answer(call) });
  if (call[0] === 'close') port.close();
});

function answer(call: SqliteCall): SqliteAnswer {
  try {
    if (call[0] === 'close') {
      tables?.close();
      return { value: null };
    }
    // Before opening, which would create a file that was deleted.
    assertInPlace(files);
    tables ??= new SqliteTables(path);
    return { value: run(tables, call) };
  } catch (error) {
    // Opened again by the next call: what SQLite says of a file that was away or damaged may hold no longer.
    if (!(error instanceof TypeError || isRefused(error))) {
      tables?.close();
      tables = null;
    }
    const translated = asDatabaseError(error, path);
    return {
      fault: translated instanceof DatabaseError ? translated.fault : 'failed',
      message: translated instanceof Error ? translated.message : String(translated),
      refused: error instanceof TypeError || isRefused(error),
    };
  }
}

function run(open: SqliteTables, call: Exclude<SqliteCall, ['close']>): unknown {
  switch (call[0]) {
    case 'write':
      return open.write(call[1], call[2]);
    case 'waive':
      return open.waive(call[1]);
    case 'register':
      return open.register(call[1], call[2]);
    case 'beat':
      return open.beat(call[1], call[2]);
    case 'reap':
      return open.reap(call[1], call[2]);
    case 'retire':
      return open.retire(call[1]);
    case 'prune':
      return open.prune(call[1], call[2]);
  }
}

function isRefused(error: unknown): boolean {
  return (
    error instanceof Error &&
    'errcode' in error &&
    typeof error.errcode === 'number' &&
    REFUSED.has(error.errcode & 0xff)
  );
}
