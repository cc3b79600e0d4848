import { availableParallelism } from 'node:os';
import { DEFAULT_MODEL_ID, type ModelConfig } from '../config/schema.ts';
import { CATALOG, findModel, plannedModel, type CatalogModel } from './catalog.ts';
import { availableMemory, planMemory, totalBytes } from './memory.ts';

/**
 * Returns a better model than the default one, or null if there is none. Also returns null if anything but the default
 * model is configured.
 */
export function recommendedModel(models: readonly ModelConfig[]): RecommendedModel | null {
  const [only, ...others] = models;
  const served = only?.engine && only.engine.file === undefined ? findModel(only.id) : null;
  if (served?.id !== DEFAULT_MODEL_ID || others.length > 0) return null;
  return recommendModel(served, { availableBytes: availableMemory().bytes, cores: availableParallelism() });
}

/** Maximum bytes of weights per CPU core for a speed that is sufficient for chat. */
const BYTES_PER_CORE = 500_000_000;

/** Licenses that do not restrict the use of the model. */
const OPEN_LICENSES: ReadonlySet<string> = new Set(['Apache-2.0', 'MIT']);

export interface RecommendedModel {
  id: string;
  /** Size of the download. */
  sizeBytes: number;
  /** Memory with the default slots and context. */
  memoryBytes: number;
}

/**
 * Returns the largest model of the catalog that has an open license, needs at most 80% of the available memory and is
 * fast enough on these cores. Returns null if no such model is larger than `served`.
 */
export function recommendModel(
  served: CatalogModel,
  machine: { availableBytes: number; cores: number },
): RecommendedModel | null {
  const { availableBytes, cores } = machine;
  const recommended = CATALOG.filter(
    ({ embedding, license, sizeGb }) =>
      embedding === null &&
      OPEN_LICENSES.has(license) &&
      sizeGb > served.sizeGb &&
      sizeGb * 1e9 <= cores * BYTES_PER_CORE,
  )
    .map((model) => {
      const options = { slots: null, contextTokens: null };
      const memoryBytes = totalBytes(
        planMemory(plannedModel(model), options, { availableBytes, gpu: false }),
      );
      return { id: model.id, sizeBytes: model.sizeBytes ?? model.sizeGb * 1e9, memoryBytes };
    })
    .filter(({ memoryBytes }) => memoryBytes <= 0.8 * availableBytes);
  return recommended.toSorted((a, b) => b.sizeBytes - a.sizeBytes)[0] ?? null;
}
