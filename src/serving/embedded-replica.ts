import { stat } from 'node:fs/promises';
import { dirname, extname, join } from 'node:path';
import type { ConfigFile, EngineConfig } from '../config/schema.ts';
import type { Log, LogLevel } from '../support/log.ts';
import type { OnProgress } from '../models/progress.ts';
import type { ChildSettings } from '../engine/child.ts';
import { otherModel, type OtherModel } from '../engine/other-engines.ts';
import { localName } from '../config/model.ts';
import { HttpReplicaClient } from '../replicas/replica-client.ts';
import type { EngineState, MemoryShortage, ReplicaCapacity, ReplicaClient } from '../replicas/replica.ts';
import type { ModelDescription } from '../engine/engine.ts';
import type { LlamaOptions } from '../engine/llama/load-model.ts';
import { deleteAbandoned, type StoreSettings } from '../engine/llama/conversations/store-directory.ts';
import { EMPTY_REPORT, type ReplicaReport } from '../replicas/replica-report.ts';
import type { CommandProgram } from './command-program.ts';
import { Supervisor } from './supervisor.ts';
import { messageOf } from '../support/thrown.ts';

export interface EmbeddedOptions {
  modelId: string;
  engine: EngineConfig;
  /** Creates what runs the model instead of the embedded engine. `starts`: returns the number of starts. */
  createProgram?: ((starts: () => number) => CommandProgram) | undefined;
  /** The Unix socket that the engine creates. */
  socketPath: string;
  /** `limits.choices` of the configuration. */
  maxChoices: number;
  timeouts: ConfigFile['engine'];
  logLevel: LogLevel;
  /** Downloads the model's file if necessary and returns its path. */
  fetch(onProgress: OnProgress, signal: AbortSignal): Promise<string>;
  /**
   * Waits until there is memory for the engine. Resolves with null if the model stays idle instead. Rejects with
   * `NoRoom`, or with the reason of the signal.
   */
  reserve(request: MemoryRequest): Promise<MemoryGrant | null>;
  /** Describes a model that has not been loaded yet. Null if its file cannot be read. */
  describe(): Promise<ModelDescription | null>;
  log: Log;
}

/**
 * Why a model is loaded: because an operator wants it, or for waiting requests; `room`: only if there is memory, as at the
 * start of the service. No other model is unloaded then, and the model stays idle if it does not fit.
 */
export type LoadCause = 'operator' | 'request' | 'room';

export interface MemoryRequest {
  /** Changes if an operator wants to load a model that is already waiting for memory. */
  cause(): LoadCause;
  signal: AbortSignal;
  /** Called with what the model waits for, whenever it changes. */
  onWait(waitsFor: string): void;
  /** Called if the model stays idle. Requests that arrive from then on load it again. */
  stayIdle(): void;
}

/** Memory for an engine. Disposed when the engine is ready or has failed. */
export interface MemoryGrant extends Disposable {
  /** The memory that it is expected to need; 0: unknown. */
  bytes: number;
  /** Maximum memory of its plan; null: what it measures as available. */
  planBytes: number | null;
}

/** There is not enough memory for a model, even if all others are unloaded that may be. */
export class NoRoom extends Error {
  readonly shortage: MemoryShortage;

  constructor(message: string, shortage: MemoryShortage) {
    super(message);
    this.name = 'NoRoom';
    this.shortage = shortage;
  }
}

/** `.ts` in a clone, `.js` in an installed package. */
const EXTENSION = extname(import.meta.filename);

/** Minimum time between two attempts to load a model for requests whose engine cannot start, in milliseconds. */
const RETRY_MS = 60_000;

/** The same if there is not enough memory for the model, which is found out without an engine. */
const NO_ROOM_MS = 1000;

/** A pause for a save may take this part of the time after which a busy engine counts as stuck. */
const PAUSE_SHARE = 1 / 3;

/** Returns where engines keep conversations. `sockets`: the directory of their sockets. */
export function conversationSettings(
  { conversationCache, stallMs }: ConfigFile['engine'],
  sockets: string,
): StoreSettings {
  const { bytes = null, directory = null, keepAfterRestart: keep } = conversationCache;
  const diskDirectory = join(sockets, 'conversations');
  return { bytes, directory, diskDirectory, keep, maxPauseMs: stallMs * PAUSE_SHARE };
}

/** A replica in a child process: downloads the model's file, then starts and supervises its engine. */
export class EmbeddedReplica implements AsyncDisposable {
  readonly client: ReplicaClient;
  /** Null: the embedded engine runs the model. */
  readonly program: CommandProgram | null;
  /**
   * Modification time of the model's file, in Unix seconds. Until the file is downloaded, the time when this object was
   * created.
   */
  created = Math.floor(Date.now() / 1000);
  readonly #options: EmbeddedOptions;
  #engineConfig: EngineConfig;
  /** Ends the current run. */
  #stop = new AbortController();
  /** The state while there is no supervisor. */
  #stateWithoutEngine: EngineState = { state: 'downloading', pull: null };
  #supervisor: Supervisor | null = null;
  /** The start that is in progress, or the last one. */
  #starting = Promise.resolve();
  /** Resolves when the engine of the previous run has exited. */
  #exited = Promise.resolve();
  /** The description of an idle model, for use until the engine is ready again; null if there is none. */
  #idleDescription: ModelDescription | null = null;
  /** Why the model is being loaded. */
  #cause: LoadCause = 'room';
  /** Whether requests load the model. */
  #onDemand = false;
  /** When requests may load the model again after it could not be loaded. */
  #retryAtMs = -Infinity;
  #reservedBytes = 0;
  /** Number of engine starts in previous runs. */
  #earlierStarts = 0;

  constructor(options: EmbeddedOptions) {
    this.#options = options;
    this.#engineConfig = options.engine;
    const starts = () => this.#earlierStarts + (this.#supervisor?.starts ?? 0);
    this.program = options.createProgram?.(starts) ?? null;
    this.client =
      this.program?.client ??
      new HttpReplicaClient({
        ...options.timeouts,
        name: localName({ id: options.modelId }),
        dialect: 'sluice',
        url: 'http://engine',
        socketPath: options.socketPath,
        starts,
        model: options.modelId,
        sharedPrefixCache: false,
        log: options.log,
      });
  }

  get maxInFlight(): number | undefined {
    return this.program?.maxInFlight;
  }

  state(): EngineState {
    return this.#supervisor?.state ?? this.#stateWithoutEngine;
  }

  capacity(): ReplicaCapacity | null {
    return this.#supervisor?.capacity ?? null;
  }

  report(): ReplicaReport {
    return this.#supervisor?.report ?? EMPTY_REPORT;
  }

  /** Memory that was planned for the engine until it exits, in bytes; 0: unknown, or there is no engine. */
  get reservedBytes(): number {
    // The memory of a program may only be known when it runs.
    return Math.max(this.#reservedBytes, (this.#supervisor && this.program?.memoryBytes) ?? 0);
  }

  /** Whether the engine is exiting, and its memory is not free yet. */
  get leaving(): boolean {
    return this.#supervisor === null && this.#reservedBytes > 0;
  }

  /** The engine's model; null until the engine has been ready once or is idle, and while the model is unloaded. */
  get description(): ModelDescription | null {
    return this.#supervisor?.description ?? this.#idleDescription;
  }

  /** Whether requests can call `wake` and wait: the model is idle, or could not be loaded when it was. */
  get wakesUp(): boolean {
    if (!this.#onDemand || this.#supervisor !== null) return false;
    const { state } = this.#stateWithoutEngine;
    return state === 'idle' || (state === 'down' && performance.now() >= this.#retryAtMs);
  }

  /** Whether the model is being loaded after it was idle. */
  get waking(): boolean {
    if (!this.#onDemand || this.#supervisor?.description) return false;
    const { state } = this.state();
    return state === 'downloading' || state === 'loading';
  }

  /** Process ID of the engine; null if it is not running. */
  get pid(): number | null {
    return this.#supervisor?.pid ?? null;
  }

  /** Downloads the file and starts the engine, in the background. `state()` shows the progress. */
  start(cause: LoadCause): void {
    this.#stop = new AbortController();
    const { signal } = this.#stop;
    this.#stateWithoutEngine = { state: 'downloading', pull: null };
    this.#cause = cause;
    this.#starting = this.#run(signal).catch((error: unknown) => {
      const reason = messageOf(error);
      if (signal.aborted) return;
      this.#options.log.error('cannot start the model', { model: this.#options.modelId, reason });
      this.#stateWithoutEngine = { state: 'down', reason, retryInMs: null };
      if (!(error instanceof NoRoom)) return;
      // There may be more memory when the next request arrives.
      this.#onDemand = true;
      this.#retryAtMs = performance.now() + NO_ROOM_MS;
      this.#stateWithoutEngine.shortage = error.shortage;
    });
  }

  /** Changes the settings of the engine. They apply from its next start. */
  configure(engine: EngineConfig): void {
    this.#engineConfig = engine;
  }

  /** Loads the model if it is idle or unloaded, or its engine is down. Resumes or retries its download. */
  wake(cause: LoadCause = 'request'): void {
    const { state } = this.state();
    if (cause === 'operator') this.#cause = cause;
    if (state === 'idle' || state === 'unloaded') this.start(cause);
    else if (state === 'down') this.restart(cause);
  }

  /** Unloads the model until `wake`, and keeps its description. Resolves when the engine has exited. */
  async sleep(): Promise<void> {
    const { description } = this;
    const exited = this.unload();
    this.#idleDescription = description;
    this.#onDemand = true;
    this.#stateWithoutEngine = { state: 'idle' };
    await exited;
  }

  /**
   * Stops the engine, or the download, which resumes with the next `wake`. Running requests have a few seconds to finish.
   * Resolves when the engine has exited.
   */
  async unload(): Promise<void> {
    const supervisor = this.#supervisor;
    const starting = this.#starting;
    this.#stop.abort(new Error('the model was unloaded'));
    this.#earlierStarts += supervisor?.starts ?? 0;
    this.#reservedBytes = this.reservedBytes;
    this.#supervisor = null;
    this.#idleDescription = null;
    this.#onDemand = false;
    this.#stateWithoutEngine = { state: 'unloaded' };
    this.#exited = Promise.all([this.#exited, starting, supervisor?.finish()]).then(() => {
      // The next engine starts only after this.
      this.#reservedBytes = 0;
    });
    await this.#exited;
  }

  /** Like `Supervisor.restart`. Also retries a failed download, and does nothing during a download. */
  restart(cause: LoadCause = 'operator'): void {
    if (this.#supervisor) return this.#supervisor.restart();
    if (this.#stateWithoutEngine.state === 'down') this.start(cause);
  }

  /** Kills the engine before this process exits. */
  kill(): void {
    this.#supervisor?.kill();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new Error('the service is stopping'));
    // A start ends when its engine has exited.
    await Promise.all([this.#supervisor?.[Symbol.asyncDispose](), this.#starting]);
    await this.#exited;
    await this.client[Symbol.asyncDispose]();
  }

  async #run(signal: AbortSignal): Promise<void> {
    await this.#exited;
    const { modelId, socketPath, maxChoices, logLevel, timeouts, log } = this.#options;
    const other = this.program ?? otherModel(this.#engineConfig);
    const options = other?.options ?? (await this.#llamaOptions(signal));
    if (signal.aborted) return;
    using grant = await this.#options.reserve({
      cause: () => this.#cause,
      signal,
      onWait: (waitsFor) => {
        this.#stateWithoutEngine = { state: 'loading', fraction: 0, waitsFor };
      },
      stayIdle: () => {
        this.#onDemand = true;
        this.#stateWithoutEngine = { state: 'idle' };
      },
    });
    if (grant === null && this.#idleDescription === null) {
      const description = await this.#options.describe();
      if (!signal.aborted) this.#idleDescription = description;
    }
    if (signal.aborted || grant === null) return;
    this.#reservedBytes = grant.bytes;
    const engine = { ...options, memoryBytes: grant.planBytes };
    const argument = { socketPath, modelId, maxChoices, engine, logLevel };
    const supervisor = new Supervisor({
      ...timeouts,
      name: modelId,
      program: other?.program ?? join(import.meta.dirname, `../engine/llama/main${EXTENSION}`),
      argument: argument satisfies ChildSettings<LlamaOptions | OtherModel['options']>,
      watch: this.program ?? undefined,
      cleanUp: () => deleteAbandoned(this.#conversations),
      log,
    });
    this.#supervisor = supervisor;
    supervisor.start();
    await supervisor.settled;
    const { state } = supervisor;
    if (signal.aborted || state.state !== 'down' || state.retryInMs !== null) return;
    // It will not start again, so it needs no memory, and the next attempt waits for memory again. Each attempt can
    // unload another model.
    this.#retryAtMs = performance.now() + RETRY_MS;
    this.#earlierStarts += supervisor.starts;
    this.#supervisor = null;
    this.#reservedBytes = 0;
    this.#stateWithoutEngine = state;
  }

  get #conversations(): StoreSettings {
    return conversationSettings(this.#options.timeouts, dirname(this.#options.socketPath));
  }

  /** Downloads the model's file if necessary. */
  async #llamaOptions(signal: AbortSignal): Promise<LlamaOptions> {
    const file = await this.#options.fetch((pull) => {
      if (!signal.aborted) this.#stateWithoutEngine = { state: 'downloading', pull };
    }, signal);
    this.created = Math.floor((await stat(file)).mtimeMs / 1000);
    const { slots = null, contextTokens = null, threads = null, kvCache, gpuLayers } = this.#engineConfig;
    const conversations = this.#conversations;
    return { file, slots, contextTokens, threads, kvCache, gpuLayers, conversations };
  }
}
