import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { MAIN, runCli, spawnCli, type ProcessResult } from '../harness.ts';

/** The environment of the program: `env`, and of this process only the path and the compile cache. */
function cleanEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  return { PATH, NODE_COMPILE_CACHE, NO_COLOR: '1', ...env };
}

/** Starts the program with a clean environment. */
export function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn(process.execPath, [MAIN, ...args], {
    env: cleanEnvironment(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

/** Runs a command with a clean environment, in the process that all commands of a test file share. */
export function run(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<ProcessResult> {
  return runCli(args, cleanEnvironment(env));
}

/** Runs a command with a clean environment in its own process. */
export function runAlone(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<ProcessResult> {
  return spawnCli(args, cleanEnvironment(env));
}

/** Creates a directory that is removed after the test. */
export function folder(context: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'sluice-commands-'));
  context.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}
