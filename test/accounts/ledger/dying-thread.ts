/** The writer thread, except that a heartbeat kills it. */
import { parentPort } from 'node:worker_threads';

parentPort?.on('message', ({ call }: { call: [string] }) => {
  if (call[0] === 'heartbeat') process.exit(1);
});

// Imported later, so that the listener above runs first.
await import('../../../src/accounts/ledger/sqlite-writer.ts');
