import type { ModelConfig } from '../config/schema.ts';
import { findModel } from './catalog.ts';

/**
 * Adds what the catalog knows of a model to its configuration. Whether a replica calls tools and reasons is unknown,
 * because it also depends on how its server was started.
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
