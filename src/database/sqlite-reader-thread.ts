/** The thread that reads reports on SQLite. Runs queries one after another on a read-only connection. */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { SqliteDatabase } from 'kysely';
import { convertingErrors, DatabaseError } from './errors.ts';
import { assertInPlace } from './sqlite-files.ts';
import type { ReaderResult, ReaderQuery, SqliteThreadData } from './sqlite-reader.ts';
import { withStatements } from './sqlite-statements.ts';

/** How long a query waits for a lock, in milliseconds. Readers rarely do. */
const BUSY_MS = 5000;

// Set by `SqliteReaderDialect`.
const { path, files } = workerData as SqliteThreadData;
// This file runs only as a thread.
const port = parentPort!;
let database: SqliteDatabase | null = null;

/** `null` ends the thread. */
port.on('message', (query: ReaderQuery | null) => {
  if (query !== null) {
    port.postMessage(runQuery(query));
  } else {
    database?.close();
    port.close();
  }
});

function runQuery({ sql, parameters }: ReaderQuery): ReaderResult {
  try {
    assertInPlace(files);
    database ??= open();
    const statement = database.prepare(sql);
    if (statement.reader) return { rows: statement.all(parameters) };
    statement.run(parameters);
    return { rows: [] };
  } catch (error) {
    return error instanceof DatabaseError ? { fault: error.fault, message: error.message } : { error };
  }
}

function open(): SqliteDatabase {
  return convertingErrors(path, () =>
    withStatements(new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS }), path),
  );
}
