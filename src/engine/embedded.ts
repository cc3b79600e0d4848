import { stat } from 'node:fs/promises';
import { extname, join } from 'node:path';
import type { ConfigFile, EngineConfig } from '../config/schema.ts';
import type { Log, LogLevel } from '../log.ts';
import type { OnProgress } from '../models/progress.ts';
import type { ChildSettings } from './child.ts';
import { openReplica } from './client.ts';
import type { Engine, EngineDescription, EngineState } from './engine.ts';
import type { LlamaOptions } from './llama/engine.ts';
import { SCRIPTED_DEFAULTS, type ScriptedOptions } from './scripted/options.ts';
import { NOTHING_TOLD, type ReplicaReport } from './report.ts';
import { Supervisor } from './supervisor.ts';

export interface EmbeddedOptions {
  modelId: string;
  engine: EngineConfig;
  /** Where the engine listens: a path that no other process uses, short enough for a Unix socket. */
  socketPath: string;
  /** `limits.choices` of the configuration. */
  maxChoices: number;
  watch: ConfigFile['engine'];
  logLevel: LogLevel;
  /**
   * Gets the model's file, from wherever it must, and answers with its path. It may take long, and tells how far
   * it is.
   */
  fetch(onProgress: OnProgress, signal: AbortSignal): Promise<string>;
  log: Log;
}

/** `engine.file` of a model that the scripted engine plays: its options may follow in JSON. */
const SCRIPTED = /^scripted:(\{.*\})?$/s;

/** Sources as they stand in a clone, JavaScript in an installed package. */
const EXTENSION = extname(import.meta.filename);

/**
 * A model that this machine generates with: its file is fetched, its engine started and supervised, and one
 * client talks to it. It is a replica like any other to the router.
 */
export class EmbeddedReplica implements AsyncDisposable {
  readonly engine: Engine;
  readonly #options: EmbeddedOptions;
  readonly #stop = new AbortController();
  #fetching: EngineState = { state: 'downloading', pull: null };
  #supervisor: Supervisor | null = null;
  #starting: Promise<void> | null = null;
  #created = Math.floor(Date.now() / 1000);

  constructor(options: EmbeddedOptions) {
    this.#options = options;
    this.engine = openReplica({
      name: `embedded:${options.modelId}`,
      dialect: 'sluice',
      url: 'http://engine',
      socketPath: options.socketPath,
      starts: () => this.#supervisor?.starts ?? 0,
      model: options.modelId,
      sharedPrefixCache: false,
      firstByteMs: options.watch.firstByteMs,
      silenceMs: options.watch.silenceMs,
      log: options.log,
    });
  }

  state(): EngineState {
    return this.#supervisor?.state ?? this.#fetching;
  }

  /** What operators are told of the engine. */
  report(): ReplicaReport {
    return this.#supervisor?.report ?? NOTHING_TOLD;
  }

  /** What the engine says of its model; null before it was ready for the first time. */
  get description(): EngineDescription | null {
    return this.#supervisor?.description ?? null;
  }

  /** When the model's file came here, in Unix seconds. */
  get created(): number {
    return this.#created;
  }

  /** Process id of the running engine; null when there is none. */
  get pid(): number | null {
    return this.#supervisor?.pid ?? null;
  }

  /** Fetches the file and starts the engine. Returns at once; `state()` tells how it goes. */
  start(): void {
    this.#starting = this.#run().catch((error: unknown) => {
      const reason = error instanceof Error ? error.message : String(error);
      if (this.#stop.signal.aborted) return;
      this.#options.log.error('cannot start the model', { model: this.#options.modelId, reason });
      this.#fetching = { state: 'down', reason, retryInMs: null };
    });
  }

  /** Kills the engine, for a process that exits now. */
  kill(): void {
    this.#supervisor?.kill();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the service is stopping'));
    await this.#starting;
    await this.#supervisor?.[Symbol.asyncDispose]();
    await this.engine[Symbol.asyncDispose]();
  }

  async #run(): Promise<void> {
    const { engine, modelId, log, watch, socketPath } = this.#options;
    const scripted = SCRIPTED.exec(engine.file ?? '');
    const child = scripted ? this.#scripted(scripted[1]) : await this.#llama();
    if (this.#stop.signal.aborted) return;
    const { program, settings } = child;
    const path = join(import.meta.dirname, program, `main${EXTENSION}`);
    const argument = { ...settings, socketPath };
    this.#supervisor = new Supervisor({
      name: modelId,
      program: path,
      argument,
      stallMs: watch.stallMs,
      loadStallMs: watch.loadStallMs,
      log,
    });
    this.#supervisor.start();
  }

  async #llama(): Promise<{ program: string; settings: ChildSettings<LlamaOptions> }> {
    const file = await this.#options.fetch((pull) => {
      this.#fetching = { state: 'downloading', pull };
    }, this.#stop.signal);
    this.#created = Math.floor((await stat(file)).mtimeMs / 1000);
    const { slots, contextTokens = null, threads = null, gpuLayers } = this.#options.engine;
    return { program: 'llama', settings: this.#settings({ file, slots, contextTokens, threads, gpuLayers }) };
  }

  #scripted(json: string | undefined): { program: string; settings: ChildSettings<ScriptedOptions> } {
    const { slots, contextTokens = SCRIPTED_DEFAULTS.contextTokens } = this.#options.engine;
    // The operator's words, as free as a model's file name; the program checks what it is told.
    const given = JSON.parse(json ?? '{}') as Partial<ScriptedOptions>;
    const options = { ...SCRIPTED_DEFAULTS, slots, contextTokens, ...given };
    return { program: 'scripted', settings: this.#settings(options) };
  }

  #settings<EngineOptions>(engine: EngineOptions): ChildSettings<EngineOptions> {
    const { socketPath, modelId, maxChoices, logLevel } = this.#options;
    return { socketPath, modelId, maxChoices, engine, logLevel };
  }
}
