/** A thread that owns a connection to a SQLite database, and makes one call after another. */
import { parentPort, workerData } from 'node:worker_threads';
import { DatabaseError, sqliteCode } from './errors.ts';
import type { SqliteAnswer } from './sqlite-client.ts';
import { SqliteConnection, type SqliteCall, type SqliteConnectionOptions } from './sqlite-connection.ts';

// Set by `SqliteClient`.
const connection = new SqliteConnection(workerData as SqliteConnectionOptions);
// This file runs only as a thread.
const port = parentPort!;

/** `null` ends the thread. */
port.on('message', (call: SqliteCall | null) => {
  if (call !== null) {
    port.postMessage(answer(call));
  } else {
    connection.close();
    port.close();
  }
});

function answer(call: SqliteCall): SqliteAnswer {
  try {
    return { value: connection.run(call) };
  } catch (error) {
    if (!(error instanceof DatabaseError)) return { error };
    return { fault: error.fault, message: error.message, code: sqliteCode(error) };
  }
}
