import { setTimeout as sleep } from 'node:timers/promises';
import { localName, type CommandConfig } from '../config/model.ts';
import type { ConfigFile, ModelConfig } from '../config/schema.ts';
import type { EngineHealthBody, EngineReport, ModelDescription, ReadyReport } from '../engine/engine.ts';
import { startGuardian, type EngineProcess, type ProgramOptions } from '../engine/engine-process.ts';
import type { OtherModel } from '../engine/other-engines.ts';
import { GAUGES_RETRY_MS } from '../replicas/remote-replica.ts';
import { HttpReplicaClient } from '../replicas/replica-client.ts';
import type { Log } from '../support/log.ts';
import type { Secret } from '../support/secret.ts';
import type { EngineWatch } from './supervisor.ts';
import { untilIdle } from './until-idle.ts';

interface CommandContext {
  /** The Unix socket for `{socket}`. */
  socketPath: string;
  /** The environment of the program, without the secrets of the service. */
  env: NodeJS.ProcessEnv;
  timeouts: ConfigFile['engine'];
  /** Number of starts of the program. */
  starts: () => number;
  log: Log;
}

/** Interval of the checks whether a program is ready, in milliseconds. */
const CHECK_MS = 100;

/** A program of the configuration that runs a model, as another engine. Sluice asks it in its dialect whether it is ready. */
export class CommandProgram implements OtherModel, EngineWatch {
  readonly client: HttpReplicaClient;
  readonly options: ProgramOptions;
  readonly maxInFlight: number | undefined;
  readonly #command: CommandConfig;
  readonly #env: NodeJS.ProcessEnv;
  #description: ModelDescription;
  #port = 0;
  #memory = { residentBytes: 0, anonymousBytes: 0 };
  /** The most memory that it was seen to use, in bytes. */
  #maxBytes = 0;
  #gaugesAtMs = -Infinity;
  #check: Promise<EngineHealthBody | null> | null = null;

  constructor(model: ModelConfig, command: CommandConfig, context: CommandContext) {
    const { socketPath, env, timeouts, starts, log } = context;
    const { dialect, readyPath, sharedPrefixCache, exactCounts, reasoningField } = command;
    this.#command = command;
    this.#env = env;
    this.options = { run: command.run, env: command.env ?? {} };
    this.maxInFlight = command.maxInFlight;
    const { contextTokens = null } = model;
    const unknown = { maxCompletionTokens: null, quantization: null, tokenizer: null, instructType: null };
    this.#description = { contextTokens, ...unknown };
    const usesSocket = command.run.some((text) => text.includes('{socket}'));
    this.client = new HttpReplicaClient({
      ...timeouts,
      name: localName(model),
      dialect,
      url: 'http://127.0.0.1',
      ...(usesSocket ? { socketPath } : { port: () => this.#port }),
      readyPath,
      starts,
      model: command.model ?? model.id,
      contextTokens: model.contextTokens,
      reasoningField,
      sharedPrefixCache,
      exactCounts,
      log,
    });
  }

  /** As of the last start; before the first one, what the configuration has. */
  get description(): ModelDescription {
    return this.#description;
  }

  /** What is configured, or was learned; 0: unknown, as before the first start. */
  get memoryBytes(): number {
    return this.#command.memoryBytes ?? this.#maxBytes;
  }

  /** Memory that the system counts as used, in bytes. */
  get usedBytes(): number {
    return this.#memory.anonymousBytes;
  }

  readonly program = (argument: string): EngineProcess => {
    this.#memory = { residentBytes: 0, anonymousBytes: 0 };
    return startGuardian(argument, this.#env);
  };

  async untilReady(port: number, signal: AbortSignal): Promise<ReadyReport> {
    this.#port = port;
    this.#gaugesAtMs = -Infinity;
    for (;;) {
      try {
        await this.client.withTimeout((timeout) => this.client.health(timeout), signal);
        this.#description = await this.client.withTimeout((timeout) => this.client.describe(timeout), signal);
        const { slots = null } = this.#description;
        return { event: 'ready', description: this.#description, slots, backend: null };
      } catch {
        await sleep(CHECK_MS, undefined, { signal });
      }
    }
  }

  /** One check at a time, because a slow program would get more of them with each tick. */
  health(): Promise<EngineHealthBody | null> {
    this.#check ??= this.#readHealth().finally(() => (this.#check = null));
    return this.#check;
  }

  async #readHealth(): Promise<EngineHealthBody | null> {
    try {
      const health = await this.client.withTimeout((signal) => this.client.health(signal));
      const { residentBytes } = this.#memory;
      const gauges = await this.#gauges();
      const { slots = null } = this.#description;
      return { ...health, slots, ...gauges, memoryBytes: residentBytes, expectedStepMs: 0, protocol: 0 };
    } catch {
      return null;
    }
  }

  onMemory(memory: Extract<EngineReport, { event: 'memory' }>): void {
    this.#memory = memory;
    this.#maxBytes = Math.max(this.#maxBytes, memory.residentBytes);
  }

  async untilIdle(maxMs: number): Promise<void> {
    await untilIdle([this.client], maxMs);
  }

  async #gauges() {
    if (performance.now() < this.#gaugesAtMs) return null;
    return await this.client
      .withTimeout((signal) => this.client.gauges(signal))
      .catch(() => {
        this.#gaugesAtMs = performance.now() + GAUGES_RETRY_MS;
        return null;
      });
  }
}

/** Returns the environment of a program of the configuration: it needs neither the settings nor the keys of this service. */
export function withoutSecrets(
  env: NodeJS.ProcessEnv,
  secrets: ReadonlyMap<string, Secret>,
): NodeJS.ProcessEnv {
  const isSecret = (name: string): boolean => name.startsWith('SLUICE_') || secrets.has(name);
  return Object.fromEntries(Object.entries(env).filter(([name]) => !isSecret(name)));
}
