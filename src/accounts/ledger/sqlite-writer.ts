/**
 * The thread that writes the ledger on SQLite. It owns a connection and runs calls one after another, so that
 * only this thread waits for the disk.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { DatabaseError, asDatabaseError } from '../../database/errors.ts';
import { assertInPlace } from '../../database/sqlite-files.ts';
import type { SqliteThreadData } from '../../database/sqlite-reader.ts';
import type { WriterResult, WriterCall } from './sqlite-store.ts';
import { SqliteTables } from './sqlite-tables.ts';

/** SQLite result codes for values that it never accepts: TOOBIG, CONSTRAINT, MISMATCH, RANGE. */
const REFUSED: ReadonlySet<number> = new Set([18, 19, 20, 25]);

// Set by `SqliteStore`.
const { path, files } = workerData as SqliteThreadData;
// This file runs only as a thread.
const port = parentPort!;
let tables: SqliteTables | null = null;

port.on('message', ({ sequence, call }: { sequence: number; call: WriterCall }) => {
  port.postMessage({ sequence, result: result(call) });
  if (call[0] === 'close') port.close();
});

function result(call: WriterCall): WriterResult {
  try {
    if (call[0] === 'close') {
      tables?.close();
      return { value: null };
    }
    // Checked before opening, because opening would recreate a deleted file.
    assertInPlace(files);
    tables ??= new SqliteTables(path);
    return { value: run(tables, call) };
  } catch (error) {
    // The next call opens the database again, because the file may have been replaced or repaired.
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

function run(open: SqliteTables, call: Exclude<WriterCall, ['close']>): unknown {
  switch (call[0]) {
    case 'write':
      return open.write(call[1], call[2]);
    case 'waive':
      return open.waive(call[1]);
    case 'register':
      return open.register(call[1], call[2]);
    case 'heartbeat':
      return open.heartbeat(call[1], call[2]);
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
