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

/** The served models, by ID. */
export class Router {
  readonly #options: RoutingOptions;
  readonly #models = new Map<string, ServedModel>();

  constructor(options: RoutingOptions) {
    this.#options = options;
  }

  /** Adds a model; `replicas` must not be empty. */
  serve(terms: ModelTerms, replicas: readonly ReplicaEntry[]): void {
    this.#models.set(terms.id, new ServedModel(terms, replicas, this.#options));
  }

  /** Returns a model. Throws 404 `model_not_found`. */
  model(id: string): ServedModel {
    const model = this.#models.get(id);
    if (model) return model;
    throw new ServiceError(
      'model_not_found',
      `The model \`${id.slice(0, 200).toWellFormed()}\` does not exist. \`GET /v1/models\` lists the available models.`,
      { param: 'model' },
    );
  }

  /** Returns the cards of the listed models, in the order of the configuration. */
  cards(): ModelCard[] {
    return [...this.#models.values()].map((model) => model.card()).filter((card) => card !== null);
  }

  /** Returns every model with the states of its replicas, for `/readyz` and operators. */
  overview(): ModelOverview[] {
    return [...this.#models.values()].map((model) => model.overview());
  }

  /** Returns every replica of every model with its metrics, for operators. */
  reports(): ReplicaOverview[] {
    return [...this.#models.values()].flatMap((model) => model.reports());
  }
}
