import type { Log } from '../../log.ts';
import { readGguf, type GgufInfo } from '../../models/gguf.ts';
import { defaultThreads, loadBackend, type Backend } from './backend.ts';
import { NativeModel, type NativeContext } from './binding.ts';
import { availableMemory, checkMemory, memoryNeed, type MemoryNeed } from './memory.ts';
import { ChatTemplate, ChatTemplateError } from './template.ts';
import { Vocabulary } from './vocabulary.ts';

/** How a model is to be served; null and `'auto'`: as the engine thinks best. */
export interface LlamaOptions {
  /** Path of the GGUF file; of a split model, its first. */
  file: string;
  /** Choices that generate at once, 1 to 64. */
  slots: number;
  /** Tokens a slot, prompt and completion together; null: what the model was trained with, at most 4096. */
  contextTokens: number | null;
  /** Threads of a decode; null: see `defaultThreads`. */
  threads: number | null;
  /** Layers on the GPU. `'auto'`: as many as its memory has room for. */
  gpuLayers: number | 'auto';
}

/** A model that is ready to generate. Dispose of the context, then of the model. */
export interface LoadedModel {
  info: GgufInfo;
  model: NativeModel;
  context: NativeContext;
  vocabulary: Vocabulary;
  /** Null: the model takes no chats. */
  template: ChatTemplate | null;
  /** Whether its sequences can be cut in the middle; recurrent models' cannot. */
  partial: boolean;
  /** What computes, for the log. */
  backend: string;
}

interface Hooks {
  onProgress(fraction: number): void;
  log: Log;
  signal?: AbortSignal;
}

/** Reads the file, checks the memory, loads, and warms up: see `LlamaEngine.load`. */
export async function loadModel(options: LlamaOptions, hooks: Hooks): Promise<LoadedModel> {
  const { log } = hooks;
  const info = await readGguf(options.file);
  const slotTokens = slotTokensOf(options, info);
  if (slotTokens > info.contextTokens)
    log.warn(
      'contextTokens exceeds the context length that the model was trained with; quality will be worse beyond it',
      {
        contextTokens: slotTokens,
        trained: info.contextTokens,
      },
    );
  const need = memoryNeed(info, options.slots, slotTokens);
  // A GPU has memory of its own; whether it is enough is known only once it can be asked.
  const available = availableMemory();
  const backend = await loadBackend(log);
  const gpuLayers = gpuLayersOf(options.gpuLayers, backend, info, need);
  checkMemory(scaled(need, backend, 1 - gpuLayers / (info.layerCount + 1)), available);

  const template = openTemplate(info, log);
  const model = await NativeModel.load(backend, options.file, {
    gpuLayers,
    onProgress: (fraction) => hooks.onProgress(fraction),
    signal: hooks.signal,
  });
  const threads = options.threads ?? defaultThreads(backend);
  const batchTokens = Math.max(gpuLayers > 0 ? GPU_BATCH : CPU_BATCH, 2 * options.slots);
  const context = await model.context({ slots: options.slots, slotTokens, batchTokens, threads });
  const warm = await warmUp(model, context);
  const vocabulary = new Vocabulary(model, warm.vocabularySize);
  const name = backend.kind === 'cpu' ? `cpu, ${threads} threads` : `${backend.kind}, ${gpuLayers} layers`;
  return { info, model, context, vocabulary, template, partial: warm.partial, backend: name };
}

/** Tokens a slot is asked to hold; llama.cpp may round it up. */
function slotTokensOf(options: Pick<LlamaOptions, 'contextTokens'>, info: GgufInfo): number {
  return options.contextTokens ?? Math.min(info.contextTokens, DEFAULT_SLOT_TOKENS);
}

const DEFAULT_SLOT_TOKENS = 4096;

/** 128 keeps 97% of a CPU's prefill speed and lets a newcomer, or a cancel, wait a third as long as 512. */
const CPU_BATCH = 128;
const GPU_BATCH = 512;

function gpuLayersOf(wanted: number | 'auto', backend: Backend, info: GgufInfo, need: MemoryNeed): number {
  if (backend.kind === 'cpu') return 0;
  const all = info.layerCount + 1; // The output layer counts as one.
  if (wanted !== 'auto') return Math.min(wanted, all);
  const { total, used } = backend.addon.getGpuVramInfo();
  const bytes = need.fileBytes + need.kvBytes + need.overheadBytes;
  return Math.max(0, Math.min(all, Math.floor((all * (total - used)) / bytes)));
}

/** What is left for the machine's own memory. Apple's is one for both. */
function scaled(need: MemoryNeed, backend: Backend, share: number): MemoryNeed {
  if (backend.kind === 'cpu' || backend.kind === 'metal') return need;
  return { ...need, fileBytes: need.fileBytes * share, kvBytes: need.kvBytes * share };
}

function openTemplate(info: GgufInfo, log: Log): ChatTemplate | null {
  if (info.chatTemplate === null) return null;
  try {
    return new ChatTemplate(info.chatTemplate, { bos: info.bosToken ?? '', eos: info.eosToken ?? '' });
  } catch (error) {
    if (!(error instanceof ChatTemplateError)) throw error;
    log.warn('the chat template is not usable; the model only supports text completions', { error });
    return null;
  }
}

/**
 * A small prefill and two decodes, so that the first request finds everything in place. What they tell besides:
 * how many tokens the vocabulary has, and whether a sequence can be cut.
 */
async function warmUp(
  model: NativeModel,
  context: NativeContext,
): Promise<{ vocabularySize: number; partial: boolean }> {
  const sampler = model.sampler({ temperature: 0, seed: 0 });
  let tokens = new Uint32Array(WARM_UP_TOKENS).fill(model.bosToken ?? model.eosToken ?? 0);
  let position = 0;
  let logits = -1;
  for (let step = 0; step < 3; step++) {
    context.begin(tokens.length);
    logits = context.add(0, position, tokens, true);
    await context.decode();
    position += tokens.length;
    tokens = Uint32Array.of(await context.sample(logits, sampler));
  }
  const vocabularySize = (await context.logits(logits, sampler)).length;
  const partial = context.trim(0, WARM_UP_TOKENS / 2);
  context.clear(0);
  sampler.dispose();
  return { vocabularySize, partial };
}

const WARM_UP_TOKENS = 16;
