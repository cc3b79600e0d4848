/** Prepares the folder given, as a user with no special rights, and tells what became of it. */
import { argv } from 'node:process';
import { prepareHome } from '../../src/config/home.ts';

// Root may write everywhere; 65534 is nobody.
if (process.getuid?.() === 0) process.setuid?.(65_534);
const said = await prepareHome(argv[2] ?? '').then(
  () => 'prepared',
  (error: unknown) => String(error),
);
process.send?.(said, () => process.disconnect?.());
