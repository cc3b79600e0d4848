import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';

const root = join(import.meta.dirname, '..', '..');
const built = join(root, 'console', 'dist', 'index.html');

/** Builds the console if its sources are newer than the build. Throws if the build fails. */
export function buildConsole(): void {
  if (existsSync(built) && newest() <= statSync(built).mtimeMs) return;
  const { status } = spawnSync('npm', ['run', '--silent', 'build:console'], { cwd: root, stdio: 'inherit' });
  if (status !== 0) throw new Error('the console could not be built');
}

// npm runs this file after an install.
if (import.meta.main) buildConsole();

/** Returns the time of the latest source change, in Unix milliseconds. */
function newest(): number {
  return [
    'docs',
    'console/src',
    'console/public',
    'console/index.html',
    'console/guide.ts',
    'console/vite.config.ts',
    'console/package.json',
    'src/http/api/contract.ts',
    'src/http/api/contract',
  ]
    .map((path) => join(root, path))
    .flatMap((path) =>
      statSync(path).isDirectory()
        ? readdirSync(path, { recursive: true, encoding: 'utf8' }).map((name) => join(path, name))
        : [path],
    )
    .reduce((latest, path) => Math.max(latest, statSync(path).mtimeMs), 0);
}
