import { ServiceError } from '../errors.ts';
import type { ModelCard } from '../generation.ts';
import type { ReplicaEntry } from './replica.ts';
import {
  ServedModel,
  type ModelOverview,
  type ModelTerms,
  type ReplicaOverview,
  type RoutingOptions,
} from './served-model.ts';

/** The models that are served, by id. */
export class Router {
  readonly #options: RoutingOptions;
  readonly #models = new Map<string, ServedModel>();

  constructor(options: RoutingOptions) {
    this.#options = options;
  }

  /** Adds a model; `replicas` is not empty. */
  serve(terms: ModelTerms, replicas: readonly ReplicaEntry[]): void {
    this.#models.set(terms.id, new ServedModel(terms, replicas, this.#options));
  }

  /** The model of that id, or 404 `model_not_found`. */
  model(id: string): ServedModel {
    const model = this.#models.get(id);
    if (model) return model;
    throw new ServiceError(
      'model_not_found',
      `The model \`${id.slice(0, 200).toWellFormed()}\` does not exist. \`GET /v1/models\` lists the available models.`,
      { param: 'model' },
    );
  }

  /** The cards of the models that can be listed, in the order of the configuration. */
  cards(): ModelCard[] {
    return [...this.#models.values()].map((model) => model.card()).filter((card) => card !== null);
  }

  /** For `/readyz` and operators: every model with the states of its replicas. */
  overview(): ModelOverview[] {
    return [...this.#models.values()].map((model) => model.overview());
  }

  /** For operators: every replica of every model, with its numbers. */
  reports(): ReplicaOverview[] {
    return [...this.#models.values()].flatMap((model) => model.reports());
  }
}
