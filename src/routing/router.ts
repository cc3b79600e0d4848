import { ServiceError } from '../core/errors.ts';
import type { ModelCard } from '../core/generation.ts';
import { modelNamed, rankNames } from '../support/nearest.ts';
import type { PrefillProgress } from './prefill.ts';
import type { ReplicaEntry, RoutedReplica } from './replica.ts';
import {
  ServedModel,
  type ModelOverview,
  type QueuedAccount,
  type ConfiguredModel,
  type ReplicaOverview,
  type RoutingOptions,
} from './served-model.ts';

/** The served models, by ID. */
export class Router {
  readonly #options: RoutingOptions;
  readonly #aliases: ReadonlyMap<string, string>;
  readonly #models = new Map<string, ServedModel>();
  #default: string | null = null;

  constructor(options: RoutingOptions) {
    this.#options = options;
    this.#aliases = new Map(Object.entries(options.aliases ?? {}));
  }

  /** Adds a model; `replicas` must not be empty. */
  serve(model: ConfiguredModel, replicas: readonly ReplicaEntry[]): ServedModel {
    const served = new ServedModel(model, replicas, this.#options);
    this.#models.set(model.id, served);
    return served;
  }

  /**
   * Removes a model, and returns its replicas. Its waiting requests get 404 `model_not_found`; its running ones
   * continue.
   */
  remove(id: string): readonly RoutedReplica[] {
    const replicas = this.#models.get(id)?.close() ?? [];
    this.#models.delete(id);
    return replicas;
  }

  /** Whether a model with this ID is served. */
  has(id: string): boolean {
    return this.#models.has(id);
  }

  /**
   * Returns a model by its ID, an alias, or what follows the slash in its ID. Throws 404 `model_not_found`, with a message
   * that lists the models in `allowed` (null: all), the nearest names first.
   */
  model(id: string, allowed: ReadonlySet<string> | null = null): ServedModel {
    const model = this.#models.get(id) ?? this.#models.get(this.#aliases.get(id) ?? '');
    if (model) return model;
    const visible = [...this.#models.keys()].filter((known) => allowed?.has(known) !== false);
    const named = this.#models.get(modelNamed(id, visible) ?? '');
    if (named) return named;
    const name = id.slice(0, MAX_NAME).toWellFormed();
    throw new ServiceError(
      'model_not_found',
      `The model \`${name}\` does not exist. ${alternatives(name, visible)}`,
      { param: 'model' },
    );
  }

  /**
   * Sets the default model, which is listed first. Null or a model that is not served: the first one of the
   * configuration.
   */
  setDefault(id: string | null): void {
    this.#default = id;
  }

  /** The ID of the default model; null if there are no models. */
  get defaultModel(): string | null {
    return this.#listed()[0]?.id ?? null;
  }

  /** Returns the cards of the listed models: the default one, then the others in the order of the configuration. */
  cards(): ModelCard[] {
    return this.#listed()
      .map((model) => model.card())
      .filter((card) => card !== null);
  }

  /** Returns every model with the states of its replicas, for `/readyz` and operators, in the order of `cards`. */
  overview(): ModelOverview[] {
    return this.#listed().map((model) => model.overview());
  }

  /** Sets which replicas are drained. Unknown ones are ignored. */
  setDrained(drained: readonly { readonly model: string; readonly server: string }[]): void {
    const servers = new Set(drained.map(({ model, server }) => `${model} ${server}`));
    for (const model of this.#models.values()) {
      model.setDrained((server) => servers.has(`${model.id} ${server}`));
    }
  }

  /** Deletes what engines keep for later requests with this `cacheScope`. */
  forget(cacheScope: string): void {
    for (const model of this.#models.values()) model.forget(cacheScope);
  }

  /** Returns the accounts with running or waiting requests, per model: those with the most waiting requests first. */
  accounts(): QueuedAccount[] {
    return [...this.#models.values()]
      .flatMap((model) => model.accounts())
      .toSorted((a, b) => b.waiting - a.waiting || b.running - a.running);
  }

  /** Returns the progress of a prompt that takes longer than a second, in this instance; null: unknown. */
  prefillOf(requestId: string): PrefillProgress | null {
    for (const model of this.#models.values()) {
      const prefill = model.prefillOf(requestId);
      if (prefill) return prefill;
    }
    return null;
  }

  /** Returns every replica of every model with its metrics, for operators. */
  reports(): ReplicaOverview[] {
    return [...this.#models.values()].flatMap((model) => model.reports());
  }

  #listed(): ServedModel[] {
    const models = [...this.#models.values()];
    const chosen = this.#models.get(this.#default ?? '');
    return chosen ? [chosen, ...models.filter((model) => model !== chosen)] : models;
  }
}

/** Longest part of an unknown name that the message repeats, in characters. */
const MAX_NAME = 200;
/** Maximum number of models that the message lists. */
const MAX_LISTED = 5;

function alternatives(name: string, visible: readonly string[]): string {
  if (visible.length === 0) return 'No models are available to you.';
  const { near, ranked } = rankNames(name, visible);
  const listed = ranked.slice(near === null ? 0 : 1, MAX_LISTED).map((id) => `\`${id}\``);
  if (ranked.length > MAX_LISTED)
    listed.push(`and ${ranked.length - MAX_LISTED} more (see \`GET /v1/models\`)`);
  const list = `models: ${listed.join(', ')}.`;
  if (near === null) return `Available ${list}`;
  return `Did you mean \`${near}\`?${listed.length === 0 ? '' : ` Other ${list}`}`;
}
