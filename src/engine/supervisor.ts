import { spawn, type ChildProcess } from 'node:child_process';
import { rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { get } from 'node:http';
import { createInterface } from 'node:readline';
import type { Log } from '../log.ts';
import type { EngineDescription, EngineReport, EngineState, LocalEngineHealth } from './engine.ts';
import { HealthHistory, type ReplicaReport } from './report.ts';

export interface SupervisorOptions {
  /** For the log. */
  name: string;
  /** The engine's program: a module that Node runs. */
  program: string;
  /** What the program is told, as its one argument; `socketPath` among it. */
  argument: { socketPath: string } & Record<string, unknown>;
  /** Least time without a step after which an engine that has work is killed, in milliseconds. */
  stallMs: number;
  /** Time without progress after which an engine that is loading is killed, in milliseconds. */
  loadStallMs: number;
  log: Log;
}

/** Pauses before the restarts after the first consecutive crashes, in milliseconds, and after every later one. */
const RESTART_PAUSES_MS = [200, 500, 1000, 2000, 5000, 10_000, 30_000] as const;
const LONGEST_PAUSE_MS = 60_000;

/** An engine that was healthy for this long after loading has recovered: its earlier crashes are forgotten. */
const RECOVERED_MS = 120_000;

/** How often the engine is checked, in milliseconds. */
const WATCH_MS = 1000;

/** How long it may take to answer, in milliseconds. */
const HEALTH_TIMEOUT_MS = 1000;

/** How long an engine may take to end after SIGTERM before it is killed, in milliseconds. */
const GRACE_MS = 2000;

/** Longest line of an engine's output that is passed on to the log, in characters. */
const MAX_LINE = 2000;

/**
 * Starts an engine's process, watches it, and starts it again when it dies or stalls. It owns the process and
 * its socket file; the engine's HTTP is the client's business. The child ends by itself when its standard
 * input does, so that none outlives the service, however that died.
 */
export class Supervisor implements AsyncDisposable {
  readonly #options: SupervisorOptions;
  readonly #log: Log;
  #state: EngineState = { state: 'loading', fraction: 0 };
  #description: EngineDescription | null = null;
  #child: ChildProcess | null = null;
  /** Crashes without a recovery in between. */
  #crashes = 0;
  #starts = 0;
  /** Why the running engine was killed; null: it was not. */
  #killedFor: string | null = null;
  /** Milliseconds since the loading engine last reported progress, in whole checks. */
  #loadQuietMs = 0;
  /** Milliseconds without an answer to a health check, in whole checks, and with one since the engine is ready. */
  #silentMs = 0;
  #healthyMs = 0;
  /** Of the engine that is ready, when it was and with what it computes. */
  #ready: { startedAt: number; backend: string } | null = null;
  readonly #health = new HealthHistory();
  #restart: NodeJS.Timeout | null = null;
  #watch: NodeJS.Timeout | null = null;
  #stopping = false;
  #waiters: (() => void)[] = [];

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#log = options.log.with({ engine: options.name });
  }

  get state(): EngineState {
    return this.#state;
  }

  /** What the engine said of its model when it was ready; null before the first time. */
  get description(): EngineDescription | null {
    return this.#description;
  }

  /** What operators are told of the engine. */
  get report(): ReplicaReport {
    return {
      health: this.#health.last,
      tokensPerSecond: this.#health.tokensPerSecond,
      restarts: Math.max(0, this.#starts - 1),
      startedAt: this.#ready?.startedAt ?? null,
      backend: this.#ready?.backend ?? null,
    };
  }

  /** How often the engine was started so far. */
  get starts(): number {
    return this.#starts;
  }

  /** Process id of the running engine, for tests and `doctor`; null when there is none. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** Starts the engine. Returns at once; `state` and `changed()` tell how it goes. */
  start(): void {
    this.#spawn();
  }

  /** Resolves at the next change of state. */
  changed(): Promise<void> {
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /** Kills the engine, for a process that exits now: one that hangs would not see its standard input end. */
  kill(): void {
    this.#child?.kill('SIGKILL');
  }

  /** Ends the engine: politely, then by force. Resolves when it is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping = true;
    if (this.#restart) clearTimeout(this.#restart);
    this.#unwatch();
    const child = this.#child;
    if (child && child.exitCode === null && child.signalCode === null) {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      const force = setTimeout(() => child.kill('SIGKILL'), GRACE_MS);
      await gone;
      clearTimeout(force);
    }
    await rm(this.#options.argument.socketPath, { force: true });
    this.#become({ state: 'down', reason: 'stopped', retryInMs: null });
  }

  #become(state: EngineState): void {
    this.#state = state;
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const wake of waiters) wake();
  }

  #spawn(): void {
    const { program, argument } = this.#options;
    this.#starts++;
    this.#become({ state: 'loading', fraction: 0 });
    // An engine that was killed leaves its socket, on which the next one could not listen.
    rmSync(argument.socketPath, { force: true });
    const child = spawn(process.execPath, [program, JSON.stringify(argument)], {
      stdio: ['pipe', 'pipe', 'pipe'],
      // One thread in libuv's pool: with more, each decode lands on another thread and loses its cache.
      env: { ...process.env, UV_THREADPOOL_SIZE: '1' },
    });
    this.#child = child;
    this.#killedFor = null;
    this.#loadQuietMs = 0;
    this.#silentMs = 0;
    this.#healthyMs = 0;
    // Time is counted in checks and not read from a clock: time in which this process was stopped does not count.
    this.#watch = setInterval(() => this.#check(child), WATCH_MS).unref();
    let failure: Extract<EngineReport, { event: 'failed' }> | null = null;
    child.stdin.on('error', () => {});
    createInterface({ input: child.stdout }).on('line', (line) => {
      const report = parseReport(line);
      if (report?.event === 'failed') failure = report;
      else if (report) this.#heard(report);
    });
    createInterface({ input: child.stderr }).on('line', (line) => {
      this.#log.info('engine output', { line: line.slice(0, MAX_LINE) });
    });
    child.once('error', (error) =>
      this.#ended(child, `the process could not be started: ${error.message}`, true),
    );
    // `close` rather than `exit`: the last report may still be in the pipe when the process is gone.
    child.once('close', (code, signal) => {
      const how = signal ? `the process was killed by ${signal}` : `the process exited with code ${code}`;
      this.#ended(child, this.#killedFor ?? failure?.reason ?? how, failure?.retry ?? true);
    });
  }

  #heard(report: Exclude<EngineReport, { event: 'failed' }>): void {
    if (this.#stopping) return;
    if (report.event === 'loading') {
      this.#loadQuietMs = 0;
      this.#become({ state: 'loading', fraction: report.fraction });
      return;
    }
    this.#description = report.description;
    this.#ready = { startedAt: Date.now(), backend: report.backend };
    this.#log.info('engine ready', { pid: this.pid, slots: report.slots, backend: report.backend });
    this.#become({ state: 'ready' });
  }

  #ended(child: ChildProcess, reason: string, retry: boolean): void {
    if (this.#child !== child) return;
    this.#child = null;
    this.#ready = null;
    this.#health.forget();
    this.#unwatch();
    if (this.#stopping) return;
    // An engine that was ready once can be again, whatever stands in its way now.
    if (!retry && !this.#description) {
      this.#log.error('the engine cannot start', { reason });
      this.#become({ state: 'down', reason, retryInMs: null });
      return;
    }
    const pauseMs = RESTART_PAUSES_MS[this.#crashes] ?? LONGEST_PAUSE_MS;
    this.#crashes++;
    this.#log.error('engine crashed; restarting', { reason, crashes: this.#crashes, pauseMs });
    this.#become({ state: 'down', reason, retryInMs: pauseMs });
    this.#restart = setTimeout(() => this.#spawn(), pauseMs);
  }

  #check(child: ChildProcess): void {
    if (this.#state.state === 'ready') {
      void askHealth(this.#options.argument.socketPath).then((health) => this.#judge(child, health));
      return;
    }
    this.#loadQuietMs += WATCH_MS;
    if (this.#loadQuietMs >= this.#options.loadStallMs)
      this.#killFor(child, `loading made no progress for ${this.#loadQuietMs} ms`);
  }

  #judge(child: ChildProcess, health: LocalEngineHealth | null): void {
    if (this.#child !== child) return;
    if (health) this.#health.note(health);
    this.#silentMs = health ? 0 : this.#silentMs + WATCH_MS;
    const stalledMs = Math.max(this.#silentMs, health?.lastStepAgeMs ?? 0);
    if (stalledMs >= Math.max(this.#options.stallMs, 20 * (health?.medianStepMs ?? 0))) {
      this.#killFor(child, `generation made no progress for ${stalledMs} ms`);
      return;
    }
    if (health) this.#healthyMs += WATCH_MS;
    if (this.#healthyMs >= RECOVERED_MS) this.#crashes = 0;
  }

  #killFor(child: ChildProcess, reason: string): void {
    this.#killedFor = reason;
    child.kill('SIGKILL');
  }

  #unwatch(): void {
    if (this.#watch) clearInterval(this.#watch);
    this.#watch = null;
  }
}

function parseReport(line: string): EngineReport | null {
  try {
    const value: unknown = JSON.parse(line);
    // Only our own programs write here, one report a line; anything else on the pipe is no report.
    return typeof value === 'object' && value !== null && 'event' in value ? (value as EngineReport) : null;
  } catch {
    return null;
  }
}

/** Returns the engine's health, or null when it does not answer in time. */
function askHealth(socketPath: string): Promise<LocalEngineHealth | null> {
  return new Promise((resolve) => {
    const request = get({ socketPath, path: '/health', agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => (body += text));
      response.on('end', () => {
        try {
          // `engine/server.ts` writes it from the same type.
          resolve(JSON.parse(body) as LocalEngineHealth);
        } catch {
          resolve(null);
        }
      });
      response.on('error', () => resolve(null));
    });
    const timeout = setTimeout(() => request.destroy(), HEALTH_TIMEOUT_MS);
    request.on('error', () => resolve(null));
    request.on('close', () => clearTimeout(timeout));
  });
}
