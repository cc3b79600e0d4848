/** The writer's thread, but it dies of every heartbeat. */
import { parentPort } from 'node:worker_threads';

parentPort?.on('message', ({ call }: { call: [string] }) => {
  if (call[0] === 'beat') process.exit(1);
});

// After the listener above, so that it is asked first.
await import('../../../src/accounts/ledger/sqlite-writer.ts');
