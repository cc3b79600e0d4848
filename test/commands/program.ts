import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

const MAIN = join(import.meta.dirname, '../../src/main.ts');

/** Starts the program as a user does. Of this process's environment it gets the path and the cache of compiled code. */
export function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return spawn(process.execPath, [MAIN, ...args], {
    env: { PATH, NODE_COMPILE_CACHE, NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs the program to its end. */
export async function run(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Ended> {
  const child = start(args, env);
  const [stdout, stderr, ended] = await Promise.all([
    child.stdout ? text(child.stdout) : '',
    child.stderr ? text(child.stderr) : '',
    once(child, 'exit'),
  ]);
  const [code]: unknown[] = ended;
  return { code: typeof code === 'number' ? code : null, stdout, stderr };
}

/** A folder that goes away with the test. */
export function folder(context: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'sluice-commands-'));
  context.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}
