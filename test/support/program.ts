import { spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream, readFileSync, type WriteStream } from 'node:fs';

/** Pause before a restart, in milliseconds. */
const RESTART_PAUSE_MS = 200;

export interface ProgramOptions {
  /** Arguments of Node. */
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** Receives standard output and standard error. */
  logFile: string;
}

/** A program that is restarted whenever it ends, until `down` is called. */
export class Program implements AsyncDisposable {
  readonly #options: ProgramOptions;
  readonly #log: WriteStream;
  #child: ChildProcess | null = null;
  #ended: Promise<void> = Promise.resolve();
  #shouldRun = false;
  #restart: NodeJS.Timeout | undefined;

  constructor(options: ProgramOptions) {
    this.#options = options;
    this.#log = createWriteStream(options.logFile, { flags: 'a' });
  }

  /** Null while it is down. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  up(): void {
    this.#shouldRun = true;
    if (this.#child === null) this.#start();
  }

  /** Ends the program with this signal, without a restart. Resolves when it has ended. */
  async down(signal: NodeJS.Signals): Promise<void> {
    this.#shouldRun = false;
    clearTimeout(this.#restart);
    this.#child?.kill(signal);
    await this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.down('SIGKILL');
    await new Promise<void>((closed) => this.#log.end(closed));
  }

  #start(): void {
    const { args, env } = this.#options;
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.pipe(this.#log, { end: false });
    child.stderr.pipe(this.#log, { end: false });
    this.#child = child;
    this.#ended = new Promise((resolve) => {
      child.once('exit', () => {
        this.#child = null;
        if (this.#shouldRun) this.#restart = setTimeout(() => this.up(), RESTART_PAUSE_MS);
        resolve();
      });
    });
  }
}

/** Returns the running child processes of a process. */
export function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return text === '' ? [] : text.split(' ').map(Number);
  } catch {
    return [];
  }
}

/** Returns false if the process has ended. */
export function sendSignal(signal: NodeJS.Signals, pid: number): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
