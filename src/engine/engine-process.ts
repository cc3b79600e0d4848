/** How the process of an embedded engine is started, by the supervisor and by `sluice engine llama`. */
import { ChildProcess, spawn } from 'node:child_process';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Readable, Writable } from 'node:stream';

/**
 * With one thread in libuv's pool, each decode runs on the same thread and keeps its CPU cache. With the settings for
 * glibc, memory that is freed after loading is returned to the system, about 27 MB, and large buffers use large pages: a
 * KV cache of several gigabytes is cleared in half the time.
 */
function environment(decodes: number) {
  return {
    UV_THREADPOOL_SIZE: `${decodes}`,
    MALLOC_ARENA_MAX: '1',
    MALLOC_TRIM_THRESHOLD_: '65536',
    GLIBC_TUNABLES: 'glibc.malloc.hugetlb=1',
  };
}

/**
 * Raises the stack's limit to 64 MiB, if the system allows it, and then becomes the engine's process. llama.cpp's
 * tokenizers can use 2 KiB of stack per character. Node itself keeps its own, lower limit.
 */
const WITH_STACK = 'ulimit -S -s 65520 2>/dev/null; exec "$0" "$@"';

/** Returns the command that runs Node with these arguments as the process of an engine. */
function engineCommand(nodeArgs: readonly string[], variables = environment(1)) {
  const env = { ...process.env, ...variables };
  return process.platform === 'win32'
    ? { file: process.execPath, args: nodeArgs, env }
    : { file: '/bin/sh', args: ['-c', WITH_STACK, process.execPath, ...nodeArgs], env };
}

/** A started engine, as its supervisor uses it. */
export interface EngineProcess {
  /** Undefined if it could not be started, or has no process of its own. */
  readonly pid?: number | undefined;
  readonly exitCode: number | null;
  readonly signalCode: NodeJS.Signals | null;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  kill(signal: NodeJS.Signals): boolean;
  once(event: 'error', listener: (error: Error) => void): unknown;
  once(
    event: 'exit' | 'close',
    listener: (code: number | null, signal: NodeJS.Signals | null) => void,
  ): unknown;
}

/** Starts an engine with its only argument. */
export type StartEngine = (argument: string) => EngineProcess;

/** Starts an engine as a child process. `program` is the path of its main module. */
export function startEngineProcess(program: string, argument: string): EngineProcess {
  const { file, args, env } = engineCommand([program, argument]);
  return spawn(file, args, { stdio: ['pipe', 'pipe', 'pipe'], env });
}

/** A program that is started as an engine (`models[].command`). */
export interface ProgramOptions {
  /** The program and its arguments, with `{host}`, `{port}` and `{socket}`. */
  run: readonly string[];
  /** Additional environment variables. */
  env: Readonly<Record<string, string>>;
}

/** The environment variable with the argument of the guardian. Other users can read arguments, but not variables. */
export const GUARDIAN_SETTINGS = 'SLUICE_GUARDIAN';

/** Instead of SIGKILL, which the guardian could not pass on. */
export const KILL_SIGNAL = 'SIGUSR2';

const GUARDIAN = fileURLToPath(new URL(`guardian${extname(import.meta.filename)}`, import.meta.url));

/** Starts a program under its guardian (`guardian.ts`). `argument`: the `ChildSettings<ProgramOptions>`, in JSON. */
export function startGuardian(argument: string, env: NodeJS.ProcessEnv): EngineProcess {
  const guardian = spawn(process.execPath, [GUARDIAN], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...env, [GUARDIAN_SETTINGS]: argument },
    // It leads a process group, so that one signal reaches it, the program and its children.
    detached: true,
  });
  // Something else may have killed only the guardian.
  guardian.once('exit', () => {
    try {
      if (guardian.pid !== undefined) process.kill(-guardian.pid, 'SIGKILL');
    } catch {
      // All of it has exited.
    }
  });
  return Object.assign(guardian, {
    kill: (signal: NodeJS.Signals): boolean =>
      ChildProcess.prototype.kill.call(guardian, signal === 'SIGKILL' ? KILL_SIGNAL : signal),
  });
}

/**
 * Starts this program again as the process of an engine, with the same process ID, unless it is one already. `decodes`: how
 * many run at the same time; if absent, the number may be set later.
 */
export function becomeEngineProcess(decodes?: number): void {
  const wanted = environment(decodes ?? Number(process.env.UV_THREADPOOL_SIZE ?? 1));
  if (Object.entries(wanted).every(([name, value]) => process.env[name] === value)) return;
  const { file, args, env } = engineCommand([...process.execArgv, ...process.argv.slice(1)], wanted);
  // Windows cannot replace a process. libuv reads its variable when it first uses its pool.
  if (process.execve) process.execve(file, [file, ...args], env);
  else Object.assign(process.env, wanted);
}
