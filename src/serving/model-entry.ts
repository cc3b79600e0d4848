import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { TokenPrice } from '../accounts/ledger/cost.ts';
import { type Config, type ModelConfig } from '../config/schema.ts';
import { namedReplicas, picoPerToken, type NamedReplica } from '../config/model.ts';
import type { ModelDescription } from '../engine/engine.ts';
import type { OtherModel } from '../engine/other-engines.ts';
import { CommandProgram, withoutSecrets } from './command-program.ts';
import { EmbeddedReplica, type LoadCause } from './embedded-replica.ts';
import { createRemoteReplica, type RemoteReplica } from '../replicas/remote-replica.ts';
import { EMPTY_REPORT } from '../replicas/replica-report.ts';
import type { Log } from '../support/log.ts';
import { withCatalog } from '../models/catalog.ts';
import type { ModelStore } from '../models/store.ts';
import { cardSource, imageLimits } from '../routing/card.ts';
import { ServiceError } from '../core/errors.ts';
import type { ReplicaEntry } from '../routing/replica.ts';
import type { Router } from '../routing/router.ts';
import type { ServedModel } from '../routing/served-model.ts';
import type { Secret } from '../support/secret.ts';
import { describeModel, footprintOf, type Footprint } from './memory-fit.ts';
import { anonymousBytes, type GateModel, type MemoryGate } from './memory-gate.ts';
import { untilIdle } from './until-idle.ts';

export interface EntryContext {
  config: Config;
  /** API keys by the name of their environment variable. */
  secrets: ReadonlyMap<string, Secret>;
  store: ModelStore;
  /** The variables of proxies. */
  env: NodeJS.ProcessEnv;
  /** Folder of the engines' sockets. */
  sockets: string;
  log: Log;
  router: Router;
  gate: MemoryGate;
}

/** A served model with its replicas. */
export type ModelEntry = EmbeddedEntry | RemoteEntry | FaultyEntry;

/** A model on an engine of this service, or in a program that it starts. */
export class EmbeddedEntry implements GateModel {
  readonly kind = 'embedded';
  readonly replica: EmbeddedReplica;
  #config: ModelConfig;
  readonly #served: ServedModel;
  readonly #context: EntryContext;

  constructor(config: ModelConfig, context: EntryContext) {
    const { store, sockets, log, router, gate } = context;
    const settings = context.config.file;
    const name = createHash('sha256').update(config.id).digest('hex').slice(0, 12);
    this.#context = context;
    this.#config = withCatalog(config);
    const engine = engineOf(this.#config);
    const socketPath = join(sockets, `${process.pid}-${name}.sock`);
    const { command } = config;
    this.replica = new EmbeddedReplica({
      modelId: config.id,
      engine,
      createProgram:
        command &&
        ((starts) => {
          const env = withoutSecrets(context.env, context.secrets);
          return new CommandProgram(config, command, {
            socketPath,
            env,
            timeouts: settings.engine,
            starts,
            log,
          });
        }),
      socketPath,
      maxChoices: settings.limits.choices,
      timeouts: settings.engine,
      logLevel: settings.logLevel,
      async fetch(onProgress, signal) {
        const { file } = await store.pull(engine.file ?? config.id, { signal, onProgress });
        return file;
      },
      reserve: (request) => gate.reserve(this, request),
      describe: () => this.#describe(),
      log,
    });
    const { id, required } = config;
    this.#served = router.serve({ id, required, ...this.#offer() }, [this.replica]);
    gate.add(this);
  }

  get config(): ModelConfig {
    return this.#config;
  }

  get id(): string {
    return this.#config.id;
  }

  get keep(): boolean {
    return this.#config.keep;
  }

  get busy(): boolean {
    return this.#served.busy;
  }

  get idleMs(): number {
    return this.#served.idleMs();
  }

  get pending(): boolean {
    const { state } = this.replica.state();
    return state !== 'unloaded' && state !== 'down' && this.reservedBytes === 0;
  }

  get reservedBytes(): number {
    return this.replica.reservedBytes;
  }

  get usedBytes(): number {
    const { pid, program } = this.replica;
    const used = pid === null ? 0 : program ? program.usedBytes : anonymousBytes(pid);
    return used ?? this.replica.report().health?.memoryBytes ?? 0;
  }

  get leaving(): boolean {
    return this.replica.leaving;
  }

  /** Describes the model before it is loaded, with the context that it would get now. */
  async #describe(): Promise<ModelDescription | null> {
    const { gate, store } = this.#context;
    const footprint = await this.footprint();
    if (footprint === null) return null;
    const { contextTokens } = footprint.planned(gate.possibleBytes(footprint, this));
    return await describeModel(this.id, engineOf(this.#config), store, contextTokens, this.#other);
  }

  async footprint(): Promise<Footprint | null> {
    return await footprintOf(this.id, engineOf(this.#config), this.#context.store, this.#other);
  }

  get #other(): OtherModel | undefined {
    return this.replica.program ?? undefined;
  }

  async sleep(): Promise<void> {
    await this.replica.sleep();
  }

  /** Starts the engine, or leaves the model unloaded. */
  start(loaded: boolean, cause: LoadCause): void {
    if (loaded) this.replica.start(cause);
    else void this.replica.unload();
  }

  /**
   * Unloads the model until the next request, if it has been ready without one for this long. Resolves when the engine
   * has exited.
   */
  async sleepIfUnused(afterMs: number): Promise<void> {
    if (this.idleMs < afterMs || this.keep) return;
    this.#context.log.info('unloading an unused model until its next request', { model: this.id });
    await this.sleep();
  }

  /**
   * Applies a changed definition. If the engine's settings change, restarts it. Resolves when the old one has exited.
   */
  async apply(config: ModelConfig): Promise<void> {
    const before = engineOf(this.#config);
    this.#config = withCatalog(config);
    this.#served.update(this.#offer());
    if (isDeepStrictEqual(before, engineOf(this.#config))) return;
    this.replica.configure(engineOf(this.#config));
    const { state } = this.replica.state();
    if (state === 'unloaded') return;
    const exited = this.replica.unload();
    this.replica.wake(state === 'idle' ? 'room' : 'operator');
    await exited;
  }

  /** Stops serving the model. Running requests have a few seconds to finish. Resolves when the engine has exited. */
  async withdraw(): Promise<void> {
    this.#context.router.remove(this.id);
    await this.replica.unload();
    await this[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.replica[Symbol.asyncDispose]();
    this.#context.gate.remove(this);
  }

  #offer() {
    const card = cardSource(this.#config, [this.replica], () => this.replica.created);
    return {
      price: priceOf(this.#config),
      card: () => (this.replica.description ? card() : null),
      images: () => imageLimits(this.#config, [this.replica]),
    };
  }
}

/** A model on other servers. */
class RemoteEntry {
  readonly kind = 'remote';
  #config: ModelConfig;
  readonly #context: EntryContext;
  readonly #served: ServedModel;
  readonly #replicas: RemoteReplica[];
  /** By the name of the replica. */
  readonly #settings = new Map<string, NamedReplica>();
  readonly #created = Math.floor(Date.now() / 1000);

  constructor(config: ModelConfig, context: EntryContext) {
    this.#config = withCatalog(config);
    this.#context = context;
    this.#replicas = namedReplicas(config).map((replica) => this.#create(replica));
    const { id, required } = config;
    this.#served = context.router.serve({ id, required, ...this.#offer() }, this.#replicas);
  }

  get config(): ModelConfig {
    return this.#config;
  }

  /** Starts the health checks of the replicas. */
  start(): void {
    for (const replica of this.#replicas) void replica.start();
  }

  /** Returns the settings of a replica; undefined: there is no replica with this name. */
  replica(name: string): NamedReplica | undefined {
    return this.#settings.get(name);
  }

  /** Applies a changed definition. Resolves when the connections to removed replicas are closed. */
  async apply(config: ModelConfig): Promise<void> {
    this.#config = withCatalog(config);
    for (const { client } of this.#replicas) client.setContextTokens(this.#config.contextTokens);
    const next = namedReplicas(config);
    const isIn = (list: readonly NamedReplica[], replica: NamedReplica): boolean =>
      list.some((each) => isDeepStrictEqual(each, replica));
    const known = [...this.#settings.values()];
    const added = next.filter((replica) => !isIn(known, replica));
    const removed = known.filter((replica) => !isIn(next, replica));
    // Adds replicas before it removes others, so that requests can move to them, except those that take over a name.
    const [renamed = [], others = []] = [true, false].map((isTaken) =>
      added.filter(({ name }) => this.#settings.has(name) === isTaken),
    );
    for (const replica of others) this.#add(replica);
    const closed = removed.map(({ name }) => this.#remove(name));
    for (const replica of renamed) this.#add(replica);
    this.#served.update(this.#offer());
    await Promise.all(closed);
  }

  /** Stops serving the model. Running requests have `drainMs` to finish. Resolves when the connections are closed. */
  async withdraw(): Promise<void> {
    const { config, router } = this.#context;
    await untilIdle(router.remove(this.#config.id), config.file.drainMs);
    await this[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#replicas.map((replica) => replica[Symbol.asyncDispose]()));
  }

  #add(settings: NamedReplica): void {
    const replica = this.#create(settings);
    this.#replicas.push(replica);
    this.#served.addReplica(replica);
    void replica.start();
  }

  #create(settings: NamedReplica): RemoteReplica {
    const { config, secrets, env, log } = this.#context;
    const replica = createRemoteReplica(this.#config, settings, {
      secrets,
      timeouts: config.file.engine,
      env,
      log,
    });
    this.#settings.set(replica.client.name, settings);
    return replica;
  }

  async #remove(name: string): Promise<void> {
    const index = this.#replicas.findIndex(({ client }) => client.name === name);
    const [replica] = this.#replicas.splice(index, 1);
    this.#settings.delete(name);
    const routed = this.#served.removeReplica(name);
    await untilIdle([routed], this.#context.config.file.drainMs);
    await replica?.[Symbol.asyncDispose]();
  }

  #offer() {
    return {
      price: priceOf(this.#config),
      card: cardSource(this.#config, this.#replicas, () => this.#created),
      images: () => imageLimits(this.#config, this.#replicas),
    };
  }
}

/** A model that cannot be served, because its definition is not valid. It is listed as down, with the reason. */
class FaultyEntry {
  readonly kind = 'faulty';
  readonly config: ModelConfig;
  readonly #router: Router;

  constructor(config: ModelConfig, fault: string, { router }: EntryContext) {
    this.config = config;
    this.#router = router;
    const { id, required } = config;
    router.serve({ id, required, price: priceOf(config), card: () => null }, [faultyReplica(id, fault)]);
  }

  start(): void {}

  async apply(): Promise<void> {}

  async withdraw(): Promise<void> {
    this.#router.remove(this.config.id);
  }

  async [Symbol.asyncDispose](): Promise<void> {}
}

/** A replica that is always down, and so gets no requests. */
function faultyReplica(id: string, reason: string): ReplicaEntry {
  const refuse = async (): Promise<never> => {
    throw new ServiceError(
      'engine_unavailable',
      'This model cannot be used. Ask the operator of the service.',
    );
  };
  return {
    client: {
      name: id,
      dialect: 'openai',
      model: id,
      generate: () => ({ [Symbol.asyncIterator]: () => ({ next: refuse }) }),
      countPromptTokens: refuse,
      health: refuse,
      describe: refuse,
      forget: async () => {},
      [Symbol.asyncDispose]: async () => {},
    },
    state: () => ({ state: 'down', reason, retryInMs: null }),
    capacity: () => null,
    report: () => EMPTY_REPORT,
  };
}

/** Creates the entry of a model, which is not started yet. `fault`: why its definition cannot be used. */
export function createEntry(config: ModelConfig, context: EntryContext, fault?: string): ModelEntry {
  if (fault !== undefined) return new FaultyEntry(config, fault, context);
  return config.replicas ? new RemoteEntry(config, context) : new EmbeddedEntry(config, context);
}

function engineOf(config: ModelConfig) {
  return config.engine ?? { gpuLayers: 'auto' as const };
}

function priceOf({ pricing }: ModelConfig): TokenPrice {
  const { prompt, completion, input_cache_read: cached } = pricing;
  return {
    prompt: picoPerToken(prompt),
    completion: picoPerToken(completion),
    inputCacheRead: cached === undefined ? null : picoPerToken(cached),
  };
}
