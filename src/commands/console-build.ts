import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { consoleIsBuilt } from '../http/console.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const VITE = join(ROOT, 'node_modules', 'vite', 'bin', 'vite.js');

/**
 * Builds the console if it is missing, as in a clone that was installed with `--ignore-scripts`. If the build
 * fails, prints the reason; the service then runs without the console.
 */
export async function buildConsoleIfMissing(print: (line: string) => void): Promise<void> {
  if (consoleIsBuilt()) return;
  if (!existsSync(VITE)) {
    print(
      'The console is not available, because the packages that build it are not installed. Run `npm ci --omit=dev` to install them. The API works without it.',
    );
    return;
  }
  print('Building the console (first start only)');
  const args = [
    VITE,
    'build',
    'console',
    '--config',
    join('console', 'vite.config.ts'),
    '--logLevel',
    'error',
  ];
  const builder = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  builder.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  // Node documents these arguments; the code is null after a signal.
  const [code] = (await once(builder, 'close')) as [number | null];
  if (code !== 0) print(`The console could not be built. The API works without it.\n${errors.trim()}`);
}
