import { setTimeout as pause } from 'node:timers/promises';
import type { Actor } from '../accounts/audit.ts';
import type { ModelConfig } from '../config/schema.ts';
import { namedReplicas, nextReplicaName, type ReplicaConfig } from '../config/model.ts';
import type { Database } from '../database/database.ts';
import type { EmbeddedReplica } from './embedded-replica.ts';
import { availableMemory } from '../models/memory.ts';
import { ServiceError } from '../core/errors.ts';
import { proxyOf, ProxyVariableError } from '../support/proxy-agent.ts';
import { PullError } from '../models/errors.ts';
import {
  defineModel,
  invalid,
  keepNode,
  changedPricing,
  validModel,
  type NewModel,
  type PricingChange,
  type NewReplica,
  ModelTable,
  type ForeignModel,
  type StoredModel,
} from './model-table.ts';
import { checkFit, footprintOf, readCatalog, type CatalogState, type KeptModel } from './memory-fit.ts';
import { MemoryGate } from './memory-gate.ts';
import {
  knownModality,
  ModelDetailsReader,
  sourceOf,
  type ModelDetails,
  type ModelOrigin,
} from './model-details.ts';
import { createEntry, type EmbeddedEntry, type EntryContext, type ModelEntry } from './model-entry.ts';

/** Interval at which changes by other processes are noticed, in milliseconds. */
const POLL_MS = 1000;

interface Served {
  entry: ModelEntry;
  /** Null for a model from the configuration file. */
  stored: StoredModel | null;
}

/**
 * The models of a running service: those of the configuration, and those in the database, which can be changed at run
 * time by any process on the same database. A model in the configuration wins over one in the database with the same
 * ID.
 */
export class ModelRegistry implements AsyncDisposable {
  readonly #context: EntryContext;
  readonly #table: ModelTable;
  readonly #details: ModelDetailsReader;
  readonly #served = new Map<string, Served>();
  readonly #node: string;
  /** Models of other instances, by ID. */
  #foreign: ReadonlyMap<string, ForeignModel> = new Map();
  /** Models in the database that the configuration hides. */
  #hidden: ReadonlySet<string> = new Set();
  #revision = -1;
  /** Changes run one at a time. */
  #last: Promise<unknown> = Promise.resolve();
  /** Engines and connections that are being closed. */
  readonly #closing = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  #failing = false;

  private constructor(context: Omit<EntryContext, 'gate'>, table: ModelTable, node: string) {
    const { maxMemoryBytes = null, minStayMs } = context.config.file.engine;
    const gate = new MemoryGate({
      maxBytes: maxMemoryBytes,
      minStayMs,
      availableBytes: () => availableMemory().bytes,
      now: () => performance.now(),
      log: context.log,
    });
    this.#context = { ...context, gate };
    this.#table = table;
    this.#node = node;
    this.#details = new ModelDetailsReader(context.store);
  }

  /** Creates the models, which are not started yet. Rejects with a `DatabaseError`. */
  static async open(database: Database, context: Omit<EntryContext, 'gate'>): Promise<ModelRegistry> {
    const { config } = context;
    const node = await keepNode(config);
    const registry = new ModelRegistry(context, new ModelTable(database, node), node);
    for (const model of config.file.models) {
      registry.#served.set(model.id, { entry: createEntry(model, registry.#context), stored: null });
    }
    await registry.#apply(false);
    return registry;
  }

  /** Starts the engines and health checks, and from then on notices changes by other processes. */
  start(): void {
    // If not all fit into memory, those that are loaded first stay.
    const rank = ({ entry: { config } }: Served) => 2 * Number(config.keep) + Number(config.required);
    for (const { entry, stored } of [...this.#served.values()].toSorted((a, b) => rank(b) - rank(a)))
      entry.start(stored?.loaded ?? true, 'room');
    void this.#poll();
  }

  /** Number of models that were unloaded to load others. */
  get swaps(): number {
    return this.#context.gate.swaps;
  }

  get embeddedReplicas(): EmbeddedReplica[] {
    return [...this.#served.values()].flatMap(({ entry }) =>
      entry.kind === 'embedded' ? entry.replica : [],
    );
  }

  /** Returns the origin of a served model: where it is defined, and whether it is embedded. */
  origin(id: string): ModelOrigin {
    const { entry, stored } = this.#find(id);
    return {
      origin: stored === null ? 'file' : 'added',
      embedded: entry.kind === 'embedded',
      invalid: entry.kind === 'faulty',
      modality: knownModality(entry.config),
    };
  }

  /** Returns the details of a served model for operators. */
  async details(id: string): Promise<ModelDetails> {
    const { entry, stored } = this.#find(id);
    const aliases = Object.entries(this.#context.config.file.aliases).flatMap(([alias, model]) =>
      model === id ? alias : [],
    );
    const deletesFile =
      stored !== null &&
      entry.kind === 'embedded' &&
      this.#isOnlyUser(entry.config.id, sourceOf(entry.config));
    return await this.#details.read(entry, aliases, deletesFile);
  }

  /**
   * Returns the catalog, and the memory of this machine that another model could get, in bytes: other models are unloaded
   * for it.
   */
  async catalog(): Promise<{ models: CatalogState[]; availableBytes: number }> {
    const { gate, store } = this.#context;
    const availableBytes = Math.max(0, gate.possibleBytes({ inMachineMemory: true }));
    return { models: await readCatalog(store, availableBytes), availableBytes };
  }

  /**
   * Adds a model and starts to download and load it. Rejects with `invalid_value`, `missing_required_parameter`,
   * `conflict` if the ID is used, or `not_enough_memory`.
   */
  async add(model: NewModel, by: Actor): Promise<string> {
    return await this.#change(async () => {
      const config = await defineModel(model, this.#context.store);
      const { id } = config;
      if (this.#served.has(id)) throw conflict(`The model \`${id}\` already exists.`, 'id');
      for (const [index, replica] of (config.replicas ?? []).entries())
        this.#checkVariables(replica, `replicas[${index}]`);
      await this.#checkFit(config);
      await this.#table.insert({ config, node: config.replicas ? '' : this.#node, loaded: true }, by);
      return id;
    });
  }

  /** Makes a model the default, which is listed first. */
  async setDefault(id: string, by: Actor): Promise<void> {
    await this.#change(async () => {
      this.#find(id);
      await this.#table.setDefault(id, by);
    });
  }

  /** Changes the price, the context length or `keep` of an added model. A changed context length restarts its engine. */
  async update(id: string, { pricing, contextTokens, keep }: ModelChange, by: Actor): Promise<void> {
    await this.#change(async () => {
      const stored = this.#added(id);
      const { config } = stored;
      const changed = validModel({
        ...config,
        pricing: changedPricing(config.pricing, pricing),
        ...(keep !== undefined && { keep }),
        ...(contextTokens !== undefined && withContext(config, contextTokens ?? undefined)),
      });
      const detail = { ...pricing, contextTokens, keep };
      await this.#table.update({ ...stored, config: changed }, by, 'model.update', detail);
    });
  }

  /** Loads an embedded model. Rejects with `conflict` or `not_enough_memory`. */
  async load(id: string, by: Actor): Promise<void> {
    await this.#change(async () => {
      const { entry, stored } = this.#embedded(id);
      const { state } = entry.replica.state();
      if (state === 'unloaded' || state === 'idle' || state === 'down') await this.#checkFit(entry.config);
      await this.#setLoaded(entry, stored, true, by);
      entry.replica.wake('operator');
    });
  }

  /**
   * Unloads an embedded model, or cancels its download. It stays unloaded until `load` is called. A model from the
   * configuration is loaded again when the service starts. Running requests have a few seconds to finish. Rejects with
   * `conflict`.
   */
  async unload(id: string, by: Actor): Promise<void> {
    await this.#change(async () => {
      const { entry, stored } = this.#embedded(id);
      await this.#setLoaded(entry, stored, false, by);
      this.#close(entry.replica.unload());
    });
  }

  /**
   * Removes an added model. Running requests have a few seconds to finish. Then deletes its file from the models
   * folder, unless `keepFile` is true or another model uses the file. A model of another instance is removed too: that
   * instance may no longer exist, and otherwise stops the model and keeps its file. Rejects with `conflict`.
   */
  async remove(id: string, keepFile: boolean, by: Actor): Promise<void> {
    const source = await this.#change(async () => {
      const foreign = this.#served.has(id) ? undefined : this.#foreign.get(id);
      if (foreign) {
        await this.#table.delete(foreign, by, { node: foreign.node });
        return null;
      }
      const { entry, stored } = this.#findAdded(id);
      await this.#table.delete({ id, node: stored.node }, by, { keepFile });
      return entry.kind === 'embedded' ? sourceOf(entry.config) : null;
    });
    if (source === null || keepFile) return;
    await this.#closed();
    if (this.#isOnlyUser(id, source)) await this.#deleteFile(source);
  }

  /** Adds a replica to an added model. Rejects with `invalid_value` or `conflict`. */
  async addReplica(id: string, replica: NewReplica, by: Actor): Promise<void> {
    await this.#change(async () => {
      const { stored, replicas } = this.#remote(id);
      if (replicas.some(({ url }) => url === replica.url)) {
        throw conflict('The model already has a replica with this URL.', 'replica.url');
      }
      const name = nextReplicaName(id, replicas);
      const config = validModel({ ...stored.config, replicas: [...replicas, { ...replica, name }] });
      this.#checkVariables(replica, 'replica');
      const { url } = replica;
      await this.#table.update({ ...stored, config }, by, 'replica.add', { url }, url);
    });
  }

  /** Removes a replica by name. Running requests have `drainMs` to finish. Rejects with `not_found` or `conflict`. */
  async removeReplica(id: string, name: string, by: Actor): Promise<void> {
    await this.#change(async () => {
      const { entry, stored, replicas } = this.#remote(id);
      const settings = entry.replica(name);
      if (!settings) {
        throw new ServiceError('not_found', 'The model has no replica with this name.', { param: 'name' });
      }
      const rest = replicas.filter(({ url }) => url !== settings.url);
      if (rest.length === 0) {
        throw conflict('This is the last replica of the model. Remove the model instead.', 'name');
      }
      const config = { ...stored.config, replicas: rest };
      await this.#table.update({ ...stored, config }, by, 'replica.remove', { url: settings.url });
    });
  }

  /** Kills the engines before this process exits. */
  kill(): void {
    for (const replica of this.embeddedReplicas) replica.kill();
  }

  /** Stops all engines and connections immediately. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#last;
    await Promise.all([...this.#served.values()].map(({ entry }) => entry[Symbol.asyncDispose]()));
    await this.#closed();
  }

  /** Runs a change after all earlier ones, then applies the models in the database. */
  async #change<T>(work: () => Promise<T>): Promise<T> {
    const changed = this.#last.then(async () => {
      this.#stop.signal.throwIfAborted();
      const result = await work();
      await this.#apply(true);
      return result;
    });
    this.#last = changed.catch(() => {});
    return await changed;
  }

  async #poll(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await pause(POLL_MS, undefined, { ref: false, signal: this.#stop.signal }).catch(() => {});
      if (this.#stop.signal.aborted) return;
      this.#unloadUnused();
      try {
        if ((await this.#table.revision()) !== this.#revision) await this.#change(async () => {});
        this.#failing = false;
      } catch (error) {
        // No failure may end the process, which also serves the other models.
        if (!this.#failing)
          this.#context.log.error('cannot read the added models', { error: error as Error });
        this.#failing = true;
      }
    }
  }

  #unloadUnused(): void {
    const { idleUnloadMs } = this.#context.config.file.engine;
    for (const { entry } of this.#served.values()) {
      // Also notes which models are in use, if none is unloaded.
      if (entry.kind === 'embedded') this.#close(entry.sleepIfUnused(idleUnloadMs || Infinity));
    }
  }

  /** Applies the models in the database. `start`: whether new models are started. */
  async #apply(start: boolean): Promise<void> {
    const { revision, models, foreign, defaultModel } = await this.#table.read();
    const wanted = new Map(models.map((stored) => [stored.config.id, this.#withFault(stored)]));
    this.#logHidden(wanted);
    this.#logForeign(foreign);
    for (const [id, { entry, stored }] of this.#served) {
      if (stored === null) continue;
      const next = wanted.get(id);
      if (next && kindOf(next) === entry.kind && next.fault === stored.fault) continue;
      this.#served.delete(id);
      this.#close(entry.withdraw());
    }
    for (const [id, next] of wanted) {
      const known = this.#served.get(id);
      if (known === undefined) this.#serve(next, start);
      else if (known.stored !== null) {
        const before = known.stored;
        known.stored = next;
        this.#close(known.entry.apply(next.config));
        if (known.entry.kind === 'embedded' && before.loaded !== next.loaded) {
          if (next.loaded) known.entry.replica.wake('operator');
          else this.#close(known.entry.replica.unload());
        }
      }
    }
    this.#context.router.setDefault(defaultModel);
    this.#revision = revision;
  }

  #serve(stored: StoredModel, start: boolean): void {
    const { config, fault } = stored;
    if (fault !== undefined)
      this.#context.log.error('a model cannot be used', { model: config.id, reason: fault });
    const entry = createEntry(config, this.#context, fault);
    this.#served.set(config.id, { entry, stored });
    if (start) entry.start(stored.loaded, 'operator');
  }

  #logHidden(wanted: ReadonlyMap<string, StoredModel>): void {
    const hidden = [...wanted.keys()].filter((id) => this.#served.get(id)?.stored === null);
    for (const id of hidden) {
      if (this.#hidden.has(id)) continue;
      this.#context.log.warn(
        'an added model is not served, because a model in the configuration has its ID',
        { model: id },
      );
    }
    this.#hidden = new Set(hidden);
  }

  #logForeign(foreign: readonly ForeignModel[]): void {
    for (const { id, node } of foreign) {
      if (this.#foreign.get(id)?.node === node) continue;
      this.#context.log.info(
        'an added model is served by another instance only; if that one is gone, remove the model',
        { model: id, instance: node },
      );
    }
    this.#foreign = new Map(foreign.map((model) => [model.id, model]));
  }

  #find(id: string): Served {
    // Throws for an unknown model, with the names of others.
    this.#context.router.model(id);
    return this.#served.get(id) as Served;
  }

  #findAdded(id: string): { entry: ModelEntry; stored: StoredModel } {
    const { entry, stored } = this.#find(id);
    if (stored !== null) return { entry, stored };
    throw conflict(`\`${id}\` is defined in the configuration and cannot be changed here.`);
  }

  /** Returns an added model that can be changed. */
  #added(id: string): StoredModel {
    const { stored } = this.#findAdded(id);
    if (stored.fault === undefined) return stored;
    throw conflict(`\`${id}\` can only be removed: ${stored.fault}.`);
  }

  #embedded(id: string): { entry: EmbeddedEntry; stored: StoredModel | null } {
    const { entry, stored } = this.#find(id);
    if (entry.kind === 'embedded') return { entry, stored };
    if (stored !== null) this.#added(id);
    throw conflict(`\`${id}\` runs on other servers, so this service cannot load or unload it.`);
  }

  #remote(id: string) {
    const stored = this.#added(id);
    const { entry } = this.#find(id);
    if (entry.kind === 'remote') return { entry, stored, replicas: namedReplicas(stored.config) };
    throw conflict(`\`${id}\` runs on the embedded engine, so it has no other replicas.`);
  }

  async #setLoaded(
    { config }: EmbeddedEntry,
    stored: StoredModel | null,
    loaded: boolean,
    by: Actor,
  ): Promise<void> {
    if (stored === null) await this.#table.recordLoaded(config.id, loaded, by);
    else await this.#table.setLoaded(stored, loaded, by);
  }

  /** Throws `not_enough_memory` if a model does not fit even if all others are unloaded that may be. */
  async #checkFit({ id, engine }: ModelConfig): Promise<void> {
    const own = this.#served.get(id)?.entry;
    const known = own?.kind === 'embedded' ? own.footprint() : null;
    const footprint = await (known ?? (engine && footprintOf(id, engine, this.#context.store)));
    if (footprint == null) return;
    const kept = [...this.#served.values()].flatMap(({ entry }): KeptModel[] =>
      entry.kind === 'embedded' && entry !== own && entry.keep && entry.reservedBytes > 0
        ? [{ id: entry.id, memoryBytes: entry.reservedBytes }]
        : [],
    );
    const model = own?.kind === 'embedded' ? own : null;
    checkFit(id, footprint, this.#context.gate.possibleBytes(footprint, model), kept);
  }

  /** Throws `invalid_value` if this process cannot use a replica with its environment variables. `path`: its field. */
  #checkVariables({ url, apiKeyEnv }: Pick<ReplicaConfig, 'url' | 'apiKeyEnv'>, path: string): void {
    if (apiKeyEnv !== undefined && !this.#context.secrets.has(apiKeyEnv))
      throw invalid(`${path}.api_key_env`, `The environment variable \`${apiKeyEnv}\` is not set.`);
    const fault = proxyFault(url, this.#context.env);
    if (fault !== null) throw invalid(`${path}.url`, `${fault}.`);
  }

  /** Another instance, or an earlier process, may have added a model that needs an invalid proxy here. */
  #withFault(stored: StoredModel): StoredModel {
    const faults = stored.config.replicas?.map(({ url }) => proxyFault(url, this.#context.env)) ?? [];
    const fault = stored.fault ?? faults.find((each) => each !== null);
    return fault == null ? stored : { ...stored, fault };
  }

  /** Whether the file of a model is in the models folder, and no other model uses it. */
  #isOnlyUser(id: string, source: string): boolean {
    const { store } = this.#context;
    const path = store.managedPath(source);
    const users = [...this.#served].filter(
      ([other, { entry }]) =>
        other !== id && entry.kind === 'embedded' && store.managedPath(sourceOf(entry.config)) === path,
    );
    return path !== null && users.length === 0;
  }

  async #deleteFile(file: string): Promise<void> {
    const { store, log } = this.#context;
    try {
      const files = await store.remove(file);
      log.info('model file deleted', { files });
    } catch (error) {
      if (!(error instanceof PullError)) throw error;
      // Not downloaded, or in use by another process.
      log.info('model file not deleted', { reason: error.message });
    }
  }

  #close(closed: Promise<void>): void {
    const tracked = closed
      // No failure may end the process, which also serves the other models.
      .catch((error: unknown) => this.#context.log.error('cannot change a model', { error: error as Error }))
      .finally(() => this.#closing.delete(tracked));
    this.#closing.add(tracked);
  }

  async #closed(): Promise<void> {
    await Promise.all(this.#closing);
  }
}

/** Returns why a URL cannot be reached: the variable of its proxy is invalid; null: it is not. */
function proxyFault(url: string, env: NodeJS.ProcessEnv): string | null {
  try {
    proxyOf(new URL(url), env);
    return null;
  } catch (error) {
    if (error instanceof ProxyVariableError) return error.message;
    throw error;
  }
}

function kindOf({ config, fault }: StoredModel): ModelEntry['kind'] {
  if (fault !== undefined) return 'faulty';
  return config.replicas ? 'remote' : 'embedded';
}

/** Changes of an added model. */
interface ModelChange {
  pricing?: PricingChange | undefined;
  /** Null: the default. */
  contextTokens?: number | null | undefined;
  keep?: boolean | undefined;
}

/** Returns the fields of a definition with another context length; undefined: the default. */
function withContext({ engine }: ModelConfig, contextTokens: number | undefined) {
  return engine ? { engine: { ...engine, contextTokens } } : { contextTokens };
}

/** Returns the error for a change that conflicts with the current models. */
function conflict(message: string, param = 'model'): ServiceError {
  return new ServiceError('conflict', message, { param });
}
