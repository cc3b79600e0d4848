import type { EngineConfig } from '../config/schema.ts';
import { hasGpuPackage } from '../engine/llama/backend.ts';
import { availableMemory, planMemory, totalBytes, type PlannedModel } from '../engine/llama/memory.ts';
import { ServiceError } from '../errors.ts';
import { CATALOG, findModel, plannedModel, type CatalogModel } from '../models/catalog.ts';
import { readGguf } from '../models/gguf.ts';
import { scriptedOptions } from '../models/source.ts';
import type { ModelStore } from '../models/store.ts';

/** A loaded model, which could be unloaded. */
export interface LoadedModel {
  id: string;
  memoryBytes: number;
}

/**
 * Throws `not_enough_memory`, with suggestions, if the model needs more memory than is available. Does nothing if the
 * memory that it needs is unknown before the download, or if part of the model may go to a GPU; the engine checks
 * these cases when it loads the model.
 */
export async function checkFit(
  id: string,
  engine: EngineConfig,
  store: ModelStore,
  loaded: readonly LoadedModel[],
): Promise<void> {
  if (hasGpuPackage() && engine.gpuLayers !== 0) return;
  const model = await plannedOf(id, engine, store);
  if (model === null) return;
  const available = availableMemory().bytes;
  const needed = neededBytes(model, engine, available);
  if (needed > available) throw doesNotFit(id, needed, available, loaded);
}

/** A model of the catalog, and whether this machine has it and enough memory for it. */
export interface CatalogState {
  model: CatalogModel;
  /** Memory that it needs in the default configuration. */
  memoryBytes: number;
  fits: boolean;
  downloaded: boolean;
}

/** Returns the catalog, and the memory that is available on this machine, in bytes. */
export async function readCatalog(
  store: ModelStore,
): Promise<{ models: CatalogState[]; availableBytes: number }> {
  const availableBytes = availableMemory().bytes;
  const local = new Set((await store.list()).map(({ id }) => id));
  const models = CATALOG.map((model) => {
    const memoryBytes = catalogMemory(model, availableBytes);
    return { model, memoryBytes, fits: memoryBytes <= availableBytes, downloaded: local.has(model.id) };
  });
  return { models, availableBytes };
}

/** Returns the memory that a catalog model needs in the default configuration if `availableBytes` are available. */
function catalogMemory(model: CatalogModel, availableBytes: number): number {
  return neededBytes(plannedModel(model), {}, availableBytes);
}

function neededBytes(
  model: PlannedModel,
  { slots, contextTokens }: Pick<EngineConfig, 'slots' | 'contextTokens'>,
  availableBytes: number,
): number {
  const options = { slots: slots ?? null, contextTokens: contextTokens ?? null };
  return totalBytes(planMemory(model, options, { availableBytes, gpu: false }));
}

/** Returns the properties of a model; null if they are unknown before the download. */
export async function plannedOf(
  id: string,
  { file }: EngineConfig,
  store: ModelStore,
): Promise<PlannedModel | null> {
  if (scriptedOptions(file) !== null) return null;
  const local = await store.resolve(id, file).catch(() => null);
  if (local !== null) return await readGguf(local).catch(() => null);
  const listed = findModel(file ?? id);
  return listed && plannedModel(listed);
}

/** Maximum number of models of each kind that the message suggests. */
const MAX_SUGGESTED = 3;

/** Returns the error, with suggestions: models to unload, and models of the catalog that fit. */
function doesNotFit(
  id: string,
  needed: number,
  available: number,
  loaded: readonly LoadedModel[],
): ServiceError {
  const others = loaded
    .filter((model) => available + model.memoryBytes >= needed)
    .toSorted((a, b) => a.memoryBytes - b.memoryBytes)
    .slice(0, MAX_SUGGESTED);
  const smaller = CATALOG.filter((model) => catalogMemory(model, available) <= available)
    .toSorted((a, b) => b.sizeGb - a.sizeGb)
    .slice(0, MAX_SUGGESTED);
  const advice = [
    ...(others.length > 0
      ? [`It fits after one of these is unloaded: ${others.map(nameWithMemory).join(', ')}.`]
      : []),
    ...(smaller.length > 0
      ? [`Models of the catalog that fit now: ${smaller.map((model) => `\`${model.id}\``).join(', ')}.`]
      : []),
  ];
  return new ServiceError(
    'not_enough_memory',
    [
      `\`${id}\` needs ${megabytes(needed)} of memory; ${megabytes(available)} are available.`,
      ...advice,
    ].join(' '),
    { param: 'model' },
  );
}

const nameWithMemory = ({ id, memoryBytes }: LoadedModel): string => `\`${id}\` (${megabytes(memoryBytes)})`;

const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6).toLocaleString('en-US')} MB`;
