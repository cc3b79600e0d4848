import type { ServerResponse } from 'node:http';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { GenerationRequest } from '../core/generation.ts';
import { openLog, type Log, type LogLevel } from '../support/log.ts';
import type { EngineReport, Engine } from './engine.ts';
import { serveEngine } from './server.ts';
import { messageOf } from '../support/thrown.ts';

/** The only argument of an engine's program, in JSON. */
export interface ChildSettings<EngineOptions> {
  socketPath: string;
  modelId: string;
  maxChoices: number;
  engine: EngineOptions;
  logLevel: LogLevel;
}

/** An engine that is loaded and warmed up. */
export interface LoadedEngine extends Engine, AsyncDisposable {
  readonly slots: number;
  /** The hardware that the engine uses, for the log. */
  readonly backend: string;
}

export interface ChildProgram<EngineOptions> {
  load(options: EngineOptions, onProgress: (fraction: number) => void, log: Log): Promise<LoadedEngine>;
  /** Whether a restart could help after `load` has failed with this error. */
  mayRetry(error: unknown): boolean;
  /** As in `EngineServerOptions`. */
  beforeResponse?: (request: GenerationRequest, response: ServerResponse) => void;
}

/**
 * Runs this process as an engine: loads the engine, listens, and reports to standard output. Exits when standard input
 * closes (`orphan-guard.ts` kills the process if this thread is blocked), and on SIGTERM after the running requests
 * have ended. The exit code is 1 after a `failed` report.
 */
export async function runEngineChild<EngineOptions>(program: ChildProgram<EngineOptions>): Promise<void> {
  // The service may have exited and closed the pipe.
  process.stdout.on('error', () => process.exit(0));
  process.stdin
    .on('error', () => process.exit())
    .on('close', () => process.exit())
    .resume();
  new Worker(new URL(`./orphan-guard${extname(import.meta.filename)}`, import.meta.url)).unref();
  let stop: (() => Promise<void>) | null = null;
  // The service and, for example, systemd may each send one. Only the first one counts.
  const stopOnce = () => void Promise.resolve(stop?.()).finally(() => process.exit());
  process.once('SIGTERM', stopOnce).on('SIGTERM', () => {});
  // A terminal sends Ctrl+C to the service and to its engines. Engines ignore it, because the service stops them when
  // the running requests have ended.
  process.on('SIGINT', () => {});
  try {
    const settings = JSON.parse(process.argv[2] ?? '') as ChildSettings<EngineOptions>;
    stop = await serveChild(program, settings, openLog(settings.logLevel), report);
  } catch (error) {
    const reason = messageOf(error);
    report({ event: 'failed', reason, retry: program.mayRetry(error) });
    process.exitCode = 1;
    // This ends the process once the report has been written.
    process.stdin.destroy();
  }
}

/**
 * Loads an engine, serves it on its socket, and reports both. Resolves to a function that stops it after the running
 * requests have ended.
 */
export async function serveChild<EngineOptions>(
  program: ChildProgram<EngineOptions>,
  { socketPath, modelId, maxChoices, engine: options }: ChildSettings<EngineOptions>,
  log: Log,
  onReport: (report: EngineReport) => void,
): Promise<() => Promise<void>> {
  const { beforeResponse } = program;
  const engine = await program.load(options, (fraction) => onReport({ event: 'loading', fraction }), log);
  const server = await serveEngine(engine, { socketPath }, { modelId, maxChoices, log, beforeResponse });
  const { slots, backend } = engine;
  onReport({ event: 'ready', description: engine.describe(), slots, backend });
  return async () => {
    await server.close();
    await engine[Symbol.asyncDispose]();
  };
}

function report(event: EngineReport): void {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}
