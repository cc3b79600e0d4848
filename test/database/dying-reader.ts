/** The reader's thread, but it dies of some queries. */
import { parentPort } from 'node:worker_threads';
import type { ReaderQuery } from '../../src/database/sqlite-reader.ts';

parentPort?.on('message', (query: ReaderQuery | null) => {
  if (query?.sql.includes('die')) process.exit(1);
});

// After the listener above, so that it is asked first.
await import('../../src/database/sqlite-reader-thread.ts');
