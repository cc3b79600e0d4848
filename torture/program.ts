import { spawn, type ChildProcess } from 'node:child_process';
import { createWriteStream, readFileSync, type WriteStream } from 'node:fs';

/** Pause before a program that ended is started again, in milliseconds. */
const RESTART_PAUSE_MS = 200;

export interface ProgramOptions {
  /** Of Node. */
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  /** What it writes is gathered here. */
  logFile: string;
}

/** A program that is started again whenever it ends, until it is to be down. */
export class Program implements AsyncDisposable {
  readonly #options: ProgramOptions;
  readonly #log: WriteStream;
  #child: ChildProcess | null = null;
  #ended: Promise<void> = Promise.resolve();
  #wanted = false;
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
    this.#wanted = true;
    if (this.#child === null) this.#start();
  }

  /** Ends it with this signal and leaves it down. Resolves when it has ended. */
  async down(signal: NodeJS.Signals): Promise<void> {
    this.#wanted = false;
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
        if (this.#wanted) this.#restart = setTimeout(() => this.up(), RESTART_PAUSE_MS);
        resolve();
      });
    });
  }
}

/** Processes that this one has started and that run; none that has ended. */
export function childrenOf(pid: number): number[] {
  try {
    const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    return text === '' ? [] : text.split(' ').map(Number);
  } catch {
    return [];
  }
}

/** False where it has ended. */
export function send(signal: NodeJS.Signals, pid: number): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}
