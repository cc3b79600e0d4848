import type { ServerResponse } from 'node:http';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { GenerationRequest } from '../generation.ts';
import { openLog, type Log, type LogLevel } from '../log.ts';
import type { EngineReport, LocalEngine } from './engine.ts';
import { serveEngine } from './server.ts';

/** What an engine's program is told as its one argument, in JSON. */
export interface ChildSettings<EngineOptions> {
  socketPath: string;
  modelId: string;
  maxChoices: number;
  engine: EngineOptions;
  logLevel: LogLevel;
}

/** An engine that is loaded and warmed up. */
export interface LoadedEngine extends AsyncDisposable {
  engine: LocalEngine;
  slots: number;
  /** What it computes with, for the log. */
  backend: string;
}

export interface ChildProgram<EngineOptions> {
  load(options: EngineOptions, onProgress: (fraction: number) => void, log: Log): Promise<LoadedEngine>;
  /** Whether starting again could help after this error of `load`. */
  mayRetry(error: unknown): boolean;
  /** As in `EngineServerOptions`. */
  beforeAnswer?: (request: GenerationRequest, response: ServerResponse) => void;
}

/**
 * Runs this process as the engine that its argument describes: loads, listens, reports on standard output.
 * It ends when standard input ends (the service is gone; `orphan-guard.ts` sees to it whatever this thread does), and on SIGTERM once the running requests are done; SIGINT
 * is the service's to answer.
 * Exit code 0 then, 1 after a `failed` report.
 */
export async function runEngineChild<EngineOptions>(program: ChildProgram<EngineOptions>): Promise<void> {
  // Nobody may be left to read the last report.
  process.stdout.on('error', () => process.exit(0));
  process.stdin
    .on('error', () => process.exit())
    .on('close', () => process.exit())
    .resume();
  new Worker(new URL(`./orphan-guard${extname(import.meta.filename)}`, import.meta.url)).unref();
  let stop: (() => Promise<void>) | null = null;
  process.on('SIGTERM', () => void Promise.resolve(stop?.()).finally(() => process.exit()));
  // Ctrl+C goes to every process of the terminal's foreground: the service drains, and then ends its engines.
  process.on('SIGINT', () => {});
  try {
    // Written by the supervisor from the same type.
    const settings = JSON.parse(process.argv[2] ?? '') as ChildSettings<EngineOptions>;
    const log = openLog(settings.logLevel);
    const loaded = await program.load(
      settings.engine,
      (fraction) => report({ event: 'loading', fraction }),
      log,
    );
    const server = await serveEngine(
      loaded.engine,
      { socketPath: settings.socketPath },
      { modelId: settings.modelId, maxChoices: settings.maxChoices, log, beforeAnswer: program.beforeAnswer },
    );
    stop = async () => {
      await server.close();
      await loaded[Symbol.asyncDispose]();
    };
    const { slots, backend } = loaded;
    report({ event: 'ready', description: loaded.engine.describe(), slots, backend });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    report({ event: 'failed', reason, retry: program.mayRetry(error) });
    process.exitCode = 1;
    // Its closing ends the process, when the report is out.
    process.stdin.destroy();
  }
}

function report(event: EngineReport): void {
  process.stdout.write(`${JSON.stringify(event)}\n`);
}
