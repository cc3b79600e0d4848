/** Prepares a data directory as an unprivileged user and sends the result to the parent process. */
import { argv } from 'node:process';
import { prepareHome } from '../../src/config/home.ts';

// Root can write everywhere; 65534 is the user `nobody`.
if (process.getuid?.() === 0) process.setuid?.(65_534);
const result = await prepareHome(argv[2] ?? '').then(
  () => 'prepared',
  (error: unknown) => String(error),
);
process.send?.(result, () => process.disconnect?.());
