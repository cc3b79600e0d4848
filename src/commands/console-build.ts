import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { consoleIsBuilt } from '../http/console.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const VITE = join(ROOT, 'node_modules', 'vite', 'bin', 'vite.js');

/**
 * Builds the console where it is not built yet: in a clone whose packages were installed without their scripts.
 * False where that cannot be done, with the reason told; the service serves without it then.
 */
export async function ensureConsole(tell: (line: string) => void): Promise<boolean> {
  if (consoleIsBuilt()) return true;
  if (!existsSync(VITE)) {
    tell(
      'The console is not available: it is not built, and its build tools are not installed. The API works without it.',
    );
    return false;
  }
  tell('Building the console (first start only)');
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
  let said = '';
  builder.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  // Node's own: the code, or null where a signal ended it.
  const [code] = (await once(builder, 'close')) as [number | null];
  if (code === 0) return true;
  tell(`The console could not be built. The API works without it.\n${said.trim()}`);
  return false;
}
