/**
 * The thread that reads reports on SQLite: it owns a connection that cannot write, takes queries one after another
 * and answers each once. Kysely is not loaded here.
 */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { SqliteDatabase } from 'kysely';
import { asDatabaseError, DatabaseError } from './errors.ts';
import { assertInPlace } from './sqlite-files.ts';
import type { ReaderAnswer, ReaderQuery, SqliteThreadData } from './sqlite-reader.ts';
import { withStatements } from './sqlite-statements.ts';

/** How long a query waits for a lock, in milliseconds: it is rare that a reader meets one. */
const BUSY_MS = 5000;

// Set by `SqliteReaderDialect`.
const { path, files } = workerData as SqliteThreadData;
// This file is only ever run as a thread.
const port = parentPort!;
let database: SqliteDatabase | null = null;

/** `null` ends the thread. */
port.on('message', (query: ReaderQuery | null) => {
  if (query !== null) {
    port.postMessage(answer(query));
  } else {
    database?.close();
    port.close();
  }
});

function answer({ sql, parameters }: ReaderQuery): ReaderAnswer {
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
  try {
    return withStatements(new DatabaseSync(path, { readOnly: true, timeout: BUSY_MS }), path);
  } catch (error) {
    throw asDatabaseError(error, path);
  }
}
