import type { ModelConfig } from '../config/schema.ts';
import { findModel } from './catalog.ts';

/**
 * Adds the catalog's information about a model to its configuration. For models with replicas, `tools` and `reasoning`
 * are not taken from the catalog, because they also depend on how the replica's server was started.
 */
export function withCatalog(model: ModelConfig): ModelConfig {
  const listed = findModel(model.id);
  const capabilities = model.replicas ? null : listed;
  return {
    ...model,
    recommendedSampling: model.recommendedSampling ?? listed?.sampling,
    tools: model.tools ?? capabilities?.tools,
    reasoning: model.reasoning ?? capabilities?.reasoning,
  };
}
