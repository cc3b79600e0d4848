/** The reader thread, except that some queries kill it. */
import { parentPort } from 'node:worker_threads';
import type { ReaderQuery } from '../../src/database/sqlite-reader.ts';

parentPort?.on('message', (query: ReaderQuery | null) => {
  if (query?.sql.includes('die')) process.exit(1);
});

// Imported later, so that the listener above runs first.
await import('../../src/database/sqlite-reader-thread.ts');
