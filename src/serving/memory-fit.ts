import type { EngineConfig } from '../config/schema.ts';
import type { ModelDescription } from '../engine/engine.ts';
import { hasGpuPackage } from '../engine/llama/native/backend.ts';
import { otherModel } from '../engine/other-engines.ts';
import {
  bytesInMemory,
  describePlan,
  planMemory,
  totalBytes,
  type MemoryPlan,
  type PlannedModel,
} from '../models/memory.ts';
import { ServiceError } from '../core/errors.ts';
import { CATALOG, findModel, plannedModel, type CatalogModel } from '../models/catalog.ts';
import { modalityOf } from '../core/features.ts';
import { readGguf } from '../models/gguf.ts';
import type { ModelStore } from '../models/store.ts';

/** The memory that the engine of a model needs. */
export interface Footprint {
  /** Memory of its smallest plan, in bytes. */
  minBytes: number;
  /** Memory for a plan with at least one slot of `USEFUL_TOKENS`, in bytes. At least `minBytes`. */
  usefulBytes: number;
  /** Its smallest plan, and how to reduce it, for operators. */
  explanation: string;
  /** Whether all of it is in the memory of the machine. False: part of it may be on a GPU. */
  inMachineMemory: boolean;
  /** Returns its plan if `availableBytes` are available. */
  planned(availableBytes: number): { bytes: number; contextTokens: number };
}

/** Context below which a model is loaded only if there cannot be more memory for it, in tokens. */
const USEFUL_TOKENS = 4096;

/** Returns the footprint of a model; null if it is unknown before the download. `other`: see `describeModel`. */
export async function footprintOf(
  id: string,
  engine: EngineConfig,
  store: ModelStore,
  other = otherModel(engine),
): Promise<Footprint | null> {
  if (other !== null) {
    const { memoryBytes: bytes, description } = other;
    if (bytes === 0) return null;
    const planned = () => ({ bytes, contextTokens: description.contextTokens ?? 0 });
    return { minBytes: bytes, usefulBytes: bytes, explanation: '', inMachineMemory: true, planned };
  }
  const local = await store.resolve(id, engine.file).catch(() => null);
  const model = await plannedOf(id, engine, store);
  if (model === null) return null;
  const inMemory = local === null ? 0 : await bytesInMemory(local, model);
  const gpu = hasGpuPackage() && engine.gpuLayers !== 0;
  const { slots = null, contextTokens = null, kvCache } = engine;
  const smallest = planMemory(model, { slots, contextTokens, kvCache }, { availableBytes: 0, gpu });
  // Its file takes no more memory if it is on a RAM disk.
  const neededBy = (plan: MemoryPlan) => totalBytes(plan) - inMemory;
  const minBytes = neededBy(smallest);
  const useful = planMemory(
    model,
    {
      slots: slots ?? 1,
      contextTokens: contextTokens ?? Math.min(USEFUL_TOKENS, model.contextTokens),
      kvCache,
    },
    { availableBytes: 0, gpu },
  );
  // A cache whose size is chosen automatically may have half of the memory that is left.
  const reserve = slots === null || contextTokens === null ? useful.kvBytes : 0;
  return {
    minBytes,
    usefulBytes: Math.max(minBytes, neededBy(useful) + reserve),
    explanation: ` Its smallest plan: ${describePlan(smallest)}. Use fewer slots, a smaller contextTokens or a smaller model.`,
    inMachineMemory: !gpu,
    planned(availableBytes) {
      const machine = { availableBytes: availableBytes + inMemory, gpu };
      const plan = planMemory(model, { slots, contextTokens, kvCache }, machine);
      return { bytes: neededBy(plan), contextTokens: plan.contextTokens };
    },
  };
}

/**
 * Describes a model that has not been loaded yet; null if its file cannot be read. What its chat template supports is
 * known only when it is loaded. `other`: the model, if another engine runs it.
 */
export async function describeModel(
  id: string,
  engine: EngineConfig,
  store: ModelStore,
  contextTokens: number,
  other = otherModel(engine),
): Promise<ModelDescription | null> {
  if (other !== null) return other.description;
  const local = await store.resolve(id, engine.file).catch(() => null);
  const info = local === null ? null : await readGguf(local).catch(() => null);
  if (info === null) return null;
  return {
    contextTokens,
    maxCompletionTokens: contextTokens,
    instructType: null,
    quantization: info.quantization,
    tokenizer: info.tokenizerFamily,
    recommendedSampling: info.sampling,
    ...(info.embedding !== null && { modality: modalityOf(info.embedding), maxCompletionTokens: null }),
  };
}

/** A loaded model that is not unloaded for others. */
export interface KeptModel {
  id: string;
  memoryBytes: number;
}

/** A model of the catalog, and whether this machine has it and enough memory for it. */
export interface CatalogState {
  model: CatalogModel;
  /** Memory that it needs in the default configuration. */
  memoryBytes: number;
  fits: boolean;
  downloaded: boolean;
}

/** Returns the catalog, if `availableBytes` are available for a model. */
export async function readCatalog(store: ModelStore, availableBytes: number): Promise<CatalogState[]> {
  const local = new Set((await store.list()).map(({ id }) => id));
  return CATALOG.map((model) => {
    const memoryBytes = catalogMemory(model, availableBytes);
    return { model, memoryBytes, fits: memoryBytes <= availableBytes, downloaded: local.has(model.id) };
  });
}

/** Returns the memory that a catalog model needs in the default configuration if `availableBytes` are available. */
export function catalogMemory(model: CatalogModel, availableBytes: number): number {
  const options = { slots: null, contextTokens: null };
  return totalBytes(planMemory(plannedModel(model), options, { availableBytes, gpu: false }));
}

/** Returns the properties of a model; null if they are unknown before the download. */
export async function plannedOf(
  id: string,
  { file }: EngineConfig,
  store: ModelStore,
): Promise<PlannedModel | null> {
  const local = await store.resolve(id, file).catch(() => null);
  if (local !== null) return await readGguf(local).catch(() => null);
  const listed = findModel(file ?? id);
  return listed && plannedModel(listed);
}

/** Maximum number of models of each kind that the message suggests. */
const MAX_SUGGESTED = 3;

/**
 * Throws `not_enough_memory` if a model needs more memory than it can get. The message suggests models to unload, and
 * models of the catalog that fit.
 */
export function checkFit(
  id: string,
  { minBytes: needed }: Footprint,
  availableBytes: number,
  kept: readonly KeptModel[],
): void {
  if (needed <= availableBytes) return;
  const available = Math.max(0, availableBytes);
  const others = kept
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
  throw new ServiceError(
    'not_enough_memory',
    [
      `\`${id}\` needs ${megabytes(needed)} of memory; ${megabytes(available)} are available.`,
      ...advice,
    ].join(' '),
    { param: 'model' },
  );
}

const nameWithMemory = ({ id, memoryBytes }: KeptModel): string => `\`${id}\` (${megabytes(memoryBytes)})`;

export const megabytes = (bytes: number): string => `${Math.round(bytes / 1e6).toLocaleString('en-US')} MB`;
