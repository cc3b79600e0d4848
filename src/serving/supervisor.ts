import { rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import type { ConfigFile } from '../config/schema.ts';
import { logLineOf, type Log } from '../support/log.ts';
import { ownCapacity, type EngineState, type ReplicaCapacity } from '../replicas/replica.ts';
import {
  stallLimitMs,
  type ModelDescription,
  type EngineReport,
  type EngineHealthBody,
  type ReadyReport,
} from '../engine/engine.ts';
import { startEngineProcess, type EngineProcess, type StartEngine } from '../engine/engine-process.ts';
import { HealthHistory, type ReplicaReport } from '../replicas/replica-report.ts';

// Importing a built-in module reads all of its properties, which would load Node's `fetch`.
const { get } = process.getBuiltinModule('node:http');

/** How a program is checked that does not report its state itself. */
export interface EngineWatch {
  /** Resolves when the program at this port is ready. Rejects if the signal aborts, because the program has exited. */
  untilReady(port: number, signal: AbortSignal): Promise<ReadyReport>;
  /** Returns its health, or null if it does not respond in time. */
  health(): Promise<EngineHealthBody | null>;
  onMemory(report: Extract<EngineReport, { event: 'memory' }>): void;
  /** Resolves when no request runs, or after `maxMs`. Engines of Sluice finish their requests themselves after SIGTERM. */
  untilIdle(maxMs: number): Promise<void>;
}

export interface SupervisorOptions extends Pick<ConfigFile['engine'], 'stallMs' | 'loadStallMs'> {
  /** For the log. */
  name: string;
  /** Path of the engine's main module, or a function that starts the engine. */
  program: string | StartEngine;
  /** Passed to the program as its only argument, in JSON. */
  argument: { socketPath: string } & Record<string, unknown>;
  /** Absent: the program is an engine of Sluice. */
  watch?: EngineWatch | undefined;
  /** Deletes the files of an engine that was killed. Never rejects. */
  cleanUp?: () => Promise<void>;
  log: Log;
}

/**
 * Delays before a restart, by the number of consecutive crashes. After more crashes, `MAX_RESTART_DELAY_MS` applies.
 */
const RESTART_DELAYS_MS = [200, 500, 1000, 2000, 5000, 10_000, 30_000] as const;
const MAX_RESTART_DELAY_MS = 60_000;

/** Healthy time after loading that resets the crash count, in milliseconds. */
const RECOVERY_MS = 120_000;

const CHECK_INTERVAL_MS = 1000;
const HEALTH_TIMEOUT_MS = 1000;

/** Time between SIGTERM and SIGKILL, in milliseconds. */
const EXIT_TIMEOUT_MS = 2000;

/** Time between SIGTERM and SIGKILL if running requests may finish, in milliseconds. */
const RESTART_TIMEOUT_MS = 10_000;

/** Maximum length of a line of engine output in the log, in characters. */
const MAX_LINE_LENGTH = 2000;

/** Number of the last lines of output that are kept. */
const MAX_OUTPUT = 30;

/**
 * Starts an engine process, monitors it, and restarts it when it exits or stalls. Owns the process and its socket
 * file. The child exits when its standard input closes, so it does not outlive the service.
 */
export class Supervisor implements AsyncDisposable {
  readonly #options: SupervisorOptions;
  readonly #log: Log;
  #state: EngineState = { state: 'loading', fraction: 0 };
  #description: ModelDescription | null = null;
  #child: EngineProcess | null = null;
  /** Crashes since the last recovery. */
  #crashes = 0;
  #starts = 0;
  #killReason: string | null = null;
  /** Time since the loading engine last reported progress, a multiple of the check interval. */
  #loadStalledMs = 0;
  /** Time without responses to health checks, a multiple of the check interval. */
  #unresponsiveMs = 0;
  /** Time with responses to health checks since the engine became ready, a multiple of the check interval. */
  #healthyMs = 0;
  #ready: { startedAt: number; backend: string | null; capacity: ReplicaCapacity } | null = null;
  readonly #output: string[] = [];
  readonly #health = new HealthHistory();
  #nextStart: NodeJS.Timeout | undefined;
  #isRestarting = false;
  /** Timer that kills the engine if it does not exit in time. */
  #kill: NodeJS.Timeout | undefined;
  #checks: NodeJS.Timeout | undefined;
  #stopping = false;
  #lastCrash: ReplicaReport['lastCrash'] = null;
  readonly #settled = Promise.withResolvers<void>();

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#log = options.log.with({ engine: options.name });
  }

  get state(): EngineState {
    return this.#state;
  }

  /** The engine's model; null until the engine has been ready once. */
  get description(): ModelDescription | null {
    return this.#description;
  }

  /** Null if the engine is not ready. */
  get capacity(): ReplicaCapacity | null {
    return this.#ready?.capacity ?? null;
  }

  get report(): ReplicaReport {
    return {
      health: this.#health.last,
      tokensPerSecond: this.#health.tokensPerSecond,
      restarts: Math.max(0, this.#starts - 1),
      lastCrash: this.#lastCrash,
      startedAt: this.#ready?.startedAt ?? null,
      backend: this.#ready?.backend ?? null,
      output: this.#output,
    };
  }

  /** Resolves when the engine is ready, has failed to start, or was stopped. */
  get settled(): Promise<void> {
    return this.#settled.promise;
  }

  /** Number of times the engine was started. */
  get starts(): number {
    return this.#starts;
  }

  /** Process ID of the engine; null if it is not running. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** Starts the engine and returns immediately. `state` shows its progress. */
  start(): void {
    this.#spawn();
  }

  /**
   * Restarts the engine, or starts it if it is down. New requests are refused from now on; running ones have
   * `RESTART_TIMEOUT_MS` to finish. Does not count as a crash.
   */
  restart(): void {
    if (this.#stopping || this.#isRestarting) return;
    this.#log.info('restarting the engine');
    this.#crashes = 0;
    clearTimeout(this.#nextStart);
    const child = this.#child;
    if (child === null) return this.#spawn();
    clearInterval(this.#checks);
    this.#state = { state: 'loading', fraction: 0 };
    this.#isRestarting = true;
    void this.#terminate(child, RESTART_TIMEOUT_MS);
  }

  /** Sends SIGTERM, then SIGKILL. Running requests have `graceMs` to finish. Resolves after SIGTERM. */
  async #terminate(child: EngineProcess, graceMs: number): Promise<void> {
    const { watch } = this.#options;
    if (watch) await watch.untilIdle(graceMs);
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGTERM');
    clearTimeout(this.#kill);
    // Engines of Sluice finish their requests between the two signals.
    this.#kill = setTimeout(() => child.kill('SIGKILL'), watch ? EXIT_TIMEOUT_MS : graceMs);
  }

  /** Kills the engine before this process exits. Otherwise, a stuck engine could outlive it by a second. */
  kill(): void {
    this.#child?.kill('SIGKILL');
  }

  /** Stops the engine. Running requests have `EXIT_TIMEOUT_MS` to finish. Resolves when it has exited. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stop(EXIT_TIMEOUT_MS);
  }

  /** Like `[Symbol.asyncDispose]`, but running requests have `RESTART_TIMEOUT_MS` to finish. */
  async finish(): Promise<void> {
    await this.#stop(RESTART_TIMEOUT_MS);
  }

  async #stop(graceMs: number): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#nextStart);
    clearTimeout(this.#kill);
    clearInterval(this.#checks);
    const child = this.#child;
    if (child && child.exitCode === null && child.signalCode === null) {
      const exited = new Promise((resolve) => child.once('exit', resolve));
      await this.#terminate(child, graceMs);
      await exited;
      clearTimeout(this.#kill);
      await this.#options.cleanUp?.();
    }
    await rm(this.#options.argument.socketPath, { force: true });
    this.#state = { state: 'down', reason: 'stopped', retryInMs: null };
    this.#settled.resolve();
  }

  #spawn(): void {
    const { program, argument } = this.#options;
    this.#starts++;
    this.#state = { state: 'loading', fraction: 0 };
    // A killed engine leaves its socket file, and the next one could not listen on it.
    rmSync(argument.socketPath, { force: true });
    const json = JSON.stringify(argument);
    const child = typeof program === 'string' ? startEngineProcess(program, json) : program(json);
    this.#child = child;
    this.#killReason = null;
    this.#loadStalledMs = 0;
    this.#unresponsiveMs = 0;
    this.#healthyMs = 0;
    // Time is counted in checks, so that time during which this process was suspended does not count.
    this.#checks = setInterval(() => this.#check(child), CHECK_INTERVAL_MS).unref();
    let failure: Extract<EngineReport, { event: 'failed' }> | null = null;
    const { watch } = this.#options;
    const exited = new AbortController();
    child.stdin.on('error', () => {});
    createInterface({ input: child.stdout }).on('line', (line) => {
      const report = parseReport(line);
      if (report === null) return;
      if (report.event === 'failed') failure = report;
      else if (report.event === 'memory') watch?.onMemory(report);
      else if (report.event !== 'started') this.#onReport(report);
      else watch?.untilReady(report.port, exited.signal).then(this.#onReport, () => {});
    });
    createInterface({ input: child.stderr }).on('line', (line) => {
      // Other programs do not write lines of this log.
      const own = watch ? null : logLineOf(line);
      if (own) this.#log[own.level](own.message, own.fields);
      else this.#onOutput(line.slice(0, MAX_LINE_LENGTH));
    });
    child.once('error', (error) =>
      this.#onExit(child, `the process could not be started: ${error.message}`, true),
    );
    // At `exit`, the last report may still be in the pipe; at `close` it has been read.
    child.once('close', (code, signal) => {
      exited.abort();
      const exit = signal ? `the process was killed by ${signal}` : `the process exited with code ${code}`;
      this.#onExit(child, this.#killReason ?? failure?.reason ?? exit, failure?.retry ?? true);
    });
  }

  #onOutput(line: string): void {
    this.#log.info('engine output', { line });
    this.#output.push(line);
    if (this.#output.length > MAX_OUTPUT) this.#output.shift();
    // The output of a program is all that shows whether it makes progress.
    if (this.#options.watch) this.#loadStalledMs = 0;
  }

  readonly #onReport = (report: Extract<EngineReport, { event: 'loading' | 'ready' }>): void => {
    if (this.#stopping || this.#isRestarting) return;
    if (report.event === 'loading') {
      this.#loadStalledMs = 0;
      this.#state = { state: 'loading', fraction: report.fraction };
      return;
    }
    this.#description = report.description;
    const { slots, backend } = report;
    const reported = { slots, slotsInUse: null, queued: null };
    const capacity = this.#options.watch ? reported : ownCapacity(reported, report.description);
    this.#ready = { startedAt: Date.now(), backend, capacity };
    this.#log.info('engine ready', { pid: this.pid, slots, backend });
    this.#state = { state: 'ready' };
    this.#settled.resolve();
  };

  #onExit(child: EngineProcess, reason: string, retry: boolean): void {
    if (this.#child !== child) return;
    this.#child = null;
    this.#ready = null;
    this.#health.clear();
    clearInterval(this.#checks);
    if (this.#stopping) return;
    void this.#options.cleanUp?.();
    if (this.#isRestarting) {
      clearTimeout(this.#kill);
      this.#isRestarting = false;
      return this.#spawn();
    }
    this.#settled.resolve();
    // An engine that was ready once can become ready again.
    if (!retry && !this.#description) {
      this.#log.error('the engine cannot start', { reason });
      this.#state = { state: 'down', reason, retryInMs: null };
      return;
    }
    const pauseMs = RESTART_DELAYS_MS[this.#crashes] ?? MAX_RESTART_DELAY_MS;
    this.#crashes++;
    this.#lastCrash = { at: Date.now(), reason };
    this.#log.error('engine crashed; restarting', { reason, crashes: this.#crashes, pauseMs });
    this.#state = { state: 'down', reason, retryInMs: pauseMs };
    this.#nextStart = setTimeout(() => this.#spawn(), pauseMs);
  }

  #check(child: EngineProcess): void {
    const { watch, argument } = this.#options;
    if (this.#state.state === 'ready') {
      const health = watch?.health() ?? fetchHealth(argument.socketPath);
      void health.then((result) => this.#onHealth(child, result));
      return;
    }
    this.#loadStalledMs += CHECK_INTERVAL_MS;
    if (this.#loadStalledMs >= this.#options.loadStallMs)
      this.#killStalled(child, `loading made no progress for ${this.#loadStalledMs} ms`);
  }

  #onHealth(child: EngineProcess, health: EngineHealthBody | null): void {
    if (this.#child !== child) return;
    if (health) this.#health.add(health);
    if (health && this.#ready && this.#options.watch) this.#ready.capacity = health;
    this.#unresponsiveMs = health ? 0 : this.#unresponsiveMs + CHECK_INTERVAL_MS;
    const stalledMs = Math.max(this.#unresponsiveMs, health?.lastStepAgeMs ?? 0);
    if (stalledMs >= stallLimitMs(this.#options.stallMs, health ?? { expectedStepMs: 0 })) {
      this.#killStalled(child, `generation made no progress for ${stalledMs} ms`);
      return;
    }
    if (health) this.#healthyMs += CHECK_INTERVAL_MS;
    if (this.#healthyMs >= RECOVERY_MS) this.#crashes = 0;
  }

  #killStalled(child: EngineProcess, reason: string): void {
    this.#killReason = reason;
    child.kill('SIGKILL');
  }
}

function parseReport(line: string): EngineReport | null {
  try {
    const value: unknown = JSON.parse(line);
    // Engine processes write one report per line.
    return typeof value === 'object' && value !== null && 'event' in value ? (value as EngineReport) : null;
  } catch {
    return null;
  }
}

/** Returns the engine's health, or null if it does not respond in time. */
function fetchHealth(socketPath: string): Promise<EngineHealthBody | null> {
  return new Promise((resolve) => {
    const request = get({ socketPath, path: '/health', agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => (body += text));
      response.on('end', () => {
        try {
          // `engine/server.ts` writes it from the same type.
          resolve(JSON.parse(body) as EngineHealthBody);
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
