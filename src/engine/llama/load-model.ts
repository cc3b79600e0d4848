import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Log } from '../../support/log.ts';
import { readGguf, type GgufInfo } from '../../models/gguf.ts';
import { VERSION } from '../../support/version.ts';
import { defaultThreads, loadBackend, type Backend } from './native/backend.ts';
import { AllocationError, NativeModel } from './native/model.ts';
import type { NativeContext } from './native/context.ts';
import { ConversationStore } from './conversations/conversation-store.ts';
import { CPU_DRAFTS, GPU_DRAFTS, type DraftBudget } from './decode/draft-plan.ts';
import {
  availableMemory,
  bytesInMemory,
  checkMemory,
  describeAgents,
  describePlan,
  type KvCache,
  kvBytesPerToken,
  NotEnoughMemory,
  planMemory,
  totalBytes,
  type AvailableMemory,
  type MemoryPlan,
} from '../../models/memory.ts';
import type { StepSpeed } from './decode/step-planner.ts';
import { openStoreDirectory, type StoreSettings } from './conversations/store-directory.ts';
import { ChatTemplate, ChatTemplateError } from './prompt/template.ts';
import { GENERIC } from './tool-calls/json-formats.ts';
import { Vocabulary } from './prompt/vocabulary.ts';
import { messageOf } from '../../support/thrown.ts';

export interface LlamaOptions {
  /** Path of the GGUF file, or of the first file of a split model. */
  file: string;
  /** Maximum concurrent choices, 1 to 64. If null, `planMemory` chooses the number. */
  slots: number | null;
  /** Tokens per slot, prompt and completion together. If null, `planMemory` chooses the number. */
  contextTokens: number | null;
  /** Number of threads for decoding. If null, `defaultThreads` chooses the number. */
  threads: number | null;
  /** How keys and values are stored. Default: `f16`. */
  kvCache?: KvCache | undefined;
  /** Number of layers on the GPU. `'auto'`: as many as fit in its memory. */
  gpuLayers: number | 'auto';
  /** Maximum memory of the plan, in bytes. Null or absent: the available memory. */
  memoryBytes?: number | null;
  /** Where conversations are kept that lose their slot. Default: they are not kept. */
  conversations?: StoreSettings;
  /** Whether tokens are drafted, for comparisons in tests and benchmarks. Default: true. */
  drafts?: boolean;
}

/** A model that is ready to generate. Dispose of the context, then of the model. */
export interface LoadedModel {
  info: GgufInfo;
  model: NativeModel;
  context: NativeContext;
  vocabulary: Vocabulary;
  /** Null if the model does not support chat completions. */
  template: ChatTemplate | null;
  /** Whether its sequences can be trimmed; those of recurrent models cannot. */
  canTrim: boolean;
  /** Null if conversations that lose their slot are not kept. Dispose of it before the context. */
  store: ConversationStore | null;
  /** Null if tokens are not drafted. */
  drafts: DraftBudget | null;
  /** Measured in the first steps. */
  speed: StepSpeed;
  /** The backend with its threads or layers, for the log. */
  backend: string;
}

export interface LoadHooks {
  /** Receives ascending fractions, 0 to 1. */
  onProgress(fraction: number): void;
  log: Log;
}

/** A model in memory, and what its contexts may use. */
export interface Weights {
  model: NativeModel;
  plan: MemoryPlan;
  threads: number;
}

/** Dispose of the contexts, then of the model. */
export interface LoadedWeights<Contexts> extends Weights {
  contexts: Contexts;
  onGpu: boolean;
  /** The backend with its threads or layers, for the log. */
  backend: string;
}

/** See `LlamaEngine.load`. `metadata`: that of the file, if it has been read. */
export async function loadModel(
  options: LlamaOptions,
  hooks: LoadHooks,
  metadata?: GgufInfo,
): Promise<LoadedModel> {
  const { log } = hooks;
  const info = metadata ?? (await readGguf(options.file));
  const template = openTemplate(info, log);
  const loaded = await loadWeights(info, options, hooks, ({ model, plan, threads }) =>
    model.context({
      slots: plan.slots,
      slotTokens: plan.contextTokens,
      batchTokens: plan.batchTokens,
      threads,
      kvCache: options.kvCache,
    }),
  );
  const { model, contexts: context, plan, onGpu, backend } = loaded;
  checkAllocation(plan, context.allocatedBytes, log);
  const warm = await warmUp(model, context);
  const vocabulary = new Vocabulary(model, warm.vocabularySize);
  const { canTrim, speed } = warm;
  const store = await openStore(options, { info, context, canTrim, backend }, log);
  // What was not right must be trimmed.
  const drafts = canTrim && options.drafts !== false ? (onGpu ? GPU_DRAFTS : CPU_DRAFTS) : null;
  return { info, model, context, vocabulary, template, canTrim, drafts, store, speed, backend };
}

/** Without a usable directory, conversations are not kept. */
async function openStore(
  { conversations, file, kvCache = 'f16' }: LlamaOptions,
  { info, context, canTrim, backend }: Pick<LoadedModel, 'info' | 'context' | 'canTrim' | 'backend'>,
  log: Log,
): Promise<ConversationStore | null> {
  if (conversations === undefined) return null;
  try {
    const { size, mtimeMs } = await stat(file);
    const fingerprint = JSON.stringify([
      VERSION,
      [size, mtimeMs, info.quantization],
      [context.slots, context.slotTokens, kvCache],
      backend,
    ]);
    const directory = await openStoreDirectory(conversations, resolve(file), log);
    if (directory === null) return null;
    const expected = { perToken: kvBytesPerToken(info, kvCache), fixed: info.stateBytesPerSlot };
    const { slidingWindow } = info;
    return await ConversationStore.open({
      directory,
      canTrim,
      slidingWindow,
      size: expected,
      fingerprint,
      log,
    });
  } catch (error) {
    const reason = messageOf(error);
    log.warn('conversations are not saved: the directory cannot be used', { reason });
    return null;
  }
}

/**
 * Plans the memory of a model, loads its weights and creates its contexts. If the GPU has less memory than expected,
 * for example because another program has just allocated some, tries again with fewer layers on it. Rejects as
 * `LlamaEngine.load` does.
 */
export async function loadWeights<Contexts>(
  info: GgufInfo,
  options: LlamaOptions,
  hooks: LoadHooks,
  createContexts: (weights: Weights) => Promise<Contexts>,
): Promise<LoadedWeights<Contexts>> {
  const { log } = hooks;
  const inMemory = await bytesInMemory(options.file, info);
  const maxBytes = (options.memoryBytes ?? Infinity) + inMemory;
  const { bytes, limit } = memoryFor(options);
  const available = { bytes: bytes + inMemory, limit };
  const backend = await loadBackend(log);
  const threads = options.threads ?? defaultThreads(backend);
  const gpu = backend.kind !== 'cpu' && options.gpuLayers !== 0;
  const vramBytes = gpu ? freeVram(backend) : null;
  const availableBytes = Math.min(maxBytes, available.bytes + (vramBytes ?? 0));
  const machine = { availableBytes, gpu, vramBytes };
  const plan = planMemory(info, { ...options, threads }, machine);
  if ((options.contextTokens ?? 0) > info.contextTokens)
    log.warn(
      'contextTokens exceeds the context length that the model was trained with; quality will be worse beyond it',
      { contextTokens: plan.contextTokens, trained: info.contextTokens },
    );
  log.info('loading the model', {
    memory: describePlan(plan),
    ...(info.embedding === null && { context: describeAgents(plan, info, machine) }),
  });
  let layers = gpuLayersOf(options.gpuLayers, backend, info, plan);
  for (;;) {
    checkMemory(inMachineMemory(plan, backend, 1 - layers / (info.layerCount + 1)), available);
    let model: NativeModel | null = null;
    try {
      model = await NativeModel.load(backend, options.file, {
        gpuLayers: layers,
        onProgress: (fraction) => hooks.onProgress(fraction),
      });
      const contexts = await createContexts({ model, plan, threads });
      const name = backend.kind === 'cpu' ? `cpu, ${threads} threads` : `${backend.kind}, ${layers} layers`;
      const onGpu = layers > info.layerCount;
      return { model, contexts, plan, threads, onGpu, backend: name };
    } catch (error) {
      await model?.dispose();
      if (!(error instanceof AllocationError) || layers === 0) throw error;
      const failed = `Not enough memory on the GPU for ${layers} layers: ${error.message}`;
      if (options.gpuLayers !== 'auto')
        throw new NotEnoughMemory(`${failed}. Set fewer gpuLayers, or \`auto\`.`);
      const fitting = gpuLayersOf('auto', backend, info, plan);
      // Not every driver reports the memory that other programs use.
      layers = fitting < layers ? fitting : Math.floor(layers / 2);
      log.warn('not enough memory on the GPU; loading the model with fewer layers there', {
        reason: error.message,
        layers,
      });
    }
  }
}

/**
 * Returns the memory of the machine that the engine may use. With a bound, the service has compared the plan with the
 * memory before this process started, so what the process uses by now counts as available.
 */
function memoryFor({ memoryBytes = null }: LlamaOptions): AvailableMemory {
  const { bytes, limit } = availableMemory();
  return memoryBytes === null ? { bytes, limit } : { bytes: bytes + process.memoryUsage.rss(), limit };
}

/** The plan is based on the metadata of the file, in which a new architecture may describe its caches in a new way. */
export function checkAllocation(plan: MemoryPlan, allocatedBytes: number, log: Log): void {
  const plannedBytes = plan.kvBytes + plan.computeBytes;
  if (allocatedBytes - plannedBytes > totalBytes(plan) / 10)
    log.warn('llama.cpp needs more memory for the context than planned', { plannedBytes, allocatedBytes });
}

function gpuLayersOf(requested: number | 'auto', backend: Backend, info: GgufInfo, plan: MemoryPlan): number {
  if (backend.kind === 'cpu') return 0;
  const all = info.layerCount + 1; // The output layer counts as one.
  if (requested !== 'auto') return Math.min(requested, all);
  const { total, used } = backend.addon.getGpuVramInfo();
  return Math.max(0, Math.min(all, Math.floor((all * (total - used)) / totalBytes(plan))));
}

/** Returns the free memory of the GPU in bytes; null if there is no GPU, or if it shares the machine's memory. */
function freeVram(backend: Backend): number | null {
  if (backend.kind === 'cpu' || backend.kind === 'metal') return null;
  const { total, used } = backend.addon.getGpuVramInfo();
  return total - used;
}

/**
 * Returns the part of the plan that is in the machine's memory. `share` is the fraction of the layers that are not on
 * the GPU. Apple's GPUs use the machine's memory, so the whole plan is in it.
 */
function inMachineMemory(plan: MemoryPlan, backend: Backend, share: number): MemoryPlan {
  if (backend.kind === 'cpu' || backend.kind === 'metal') return plan;
  return { ...plan, weightBytes: plan.weightBytes * share, kvBytes: plan.kvBytes * share };
}

function openTemplate(info: GgufInfo, log: Log): ChatTemplate | null {
  if (info.chatTemplate === null) return null;
  try {
    const template = new ChatTemplate(info.chatTemplate, {
      bos: info.bosToken ?? '',
      eos: info.eosToken ?? '',
    });
    if (template.toolFormat === GENERIC)
      log.info('the chat template does not support tools; tools are described in the system message instead');
    return template;
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw error;
    log.warn('the chat template is not usable; the model only supports text completions', { error });
    return null;
  }
}

/**
 * Runs a small prefill and two decodes, so that the first request is as fast as later ones. Also determines the
 * size of the vocabulary, whether sequences can be trimmed, and the speed.
 */
async function warmUp(
  model: NativeModel,
  context: NativeContext,
): Promise<{ vocabularySize: number; canTrim: boolean; speed: StepSpeed }> {
  const sampler = model.sampler({ temperature: 0, seed: 0 });
  let tokens = new Uint32Array(WARM_UP_TOKENS).fill(model.bosToken ?? model.eosToken ?? 0);
  let position = 0;
  let logits = -1;
  const stepMs: number[] = [];
  for (let step = 0; step < 3; step++) {
    const startedAt = performance.now();
    context.begin(tokens.length);
    logits = context.add(0, position, tokens, 1);
    await context.decode();
    stepMs.push(performance.now() - startedAt);
    position += tokens.length;
    tokens = Uint32Array.of(await context.sample(logits, sampler));
  }
  const vocabularySize = (await context.logits(logits, sampler)).length;
  const canTrim = context.trim(0, WARM_UP_TOKENS / 2);
  context.clear(0);
  sampler.dispose();
  const [prefillMs = 0, , decodeMs = 0] = stepMs;
  return { vocabularySize, canTrim, speed: { promptTokenMs: prefillMs / WARM_UP_TOKENS, decodeMs } };
}

const WARM_UP_TOKENS = 16;
