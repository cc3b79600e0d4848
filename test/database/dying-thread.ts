/** The thread for SQLite, except that some queries kill it. */
import { parentPort } from 'node:worker_threads';
import type { SqliteQuery } from '../../src/database/sqlite-connection.ts';

parentPort?.on('message', (query: SqliteQuery | null) => {
  if (query?.sql.includes('die')) process.exit(1);
});

// Imported later, so that the listener above runs first.
await import('../../src/database/sqlite-thread.ts');
