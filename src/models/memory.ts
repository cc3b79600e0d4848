import { readFileSync, type StatsFs } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { availableParallelism, freemem, totalmem } from 'node:os';
import { dirname, join } from 'node:path';
import type { EmbeddingInfo } from './gguf.ts';

/** Slots, context length and the memory that they need, in bytes. */
export interface MemoryPlan {
  /** Maximum concurrent choices, or inputs of embeddings. */
  slots: number;
  /** Context length of each slot. */
  contextTokens: number;
  /** Maximum tokens of a batch. */
  batchTokens: number;
  /** All files of the model. */
  weightBytes: number;
  /** KV cache and recurrent state of all slots. */
  kvBytes: number;
  /** Buffers of one step. For embeddings, of one in each slot. */
  computeBytes: number;
  /** Node.js, the native libraries, the vocabulary and the samplers. */
  processBytes: number;
}

/** The properties of a model that determine its plan; see `GgufInfo`. */
export interface PlannedModel {
  sizeBytes: number;
  contextTokens: number;
  kvBytesPerToken: number;
  stateBytesPerSlot: number;
  vocabularySize: number | null;
  embeddingLength: number | null;
  embedding: EmbeddingInfo | null;
}

/** Settings of the operator. Slots and context are chosen automatically if they are null. */
export interface PlanOptions {
  slots: number | null;
  contextTokens: number | null;
  /** Only used for models that generate text. Default: `f16`. */
  kvCache?: KvCache | undefined;
  /** Only used for embeddings. */
  threads?: number | null;
}

/** How keys and values are stored. In `q8_0`, 32 numbers take 34 bytes instead of 64. */
export type KvCache = (typeof KV_CACHES)[number];
export const KV_CACHES = ['f16', 'q8_0'] as const;

export interface PlannedMachine {
  /** Including the GPU's own memory. */
  availableBytes: number;
  gpu: boolean;
  /** Of the GPU's own memory. Null or absent without a GPU, and for GPUs that use the machine's memory. */
  vramBytes?: number | null;
}

export interface AvailableMemory {
  bytes: number;
  /** The source of the limit. */
  limit: 'machine' | 'cgroup';
}

/** The model does not fit into memory. */
export class NotEnoughMemory extends Error {
  override readonly name = 'NotEnoughMemory';
}

/** The context of a slot in which agents work. The first prompts of Codex and Claude Code have 7,500 to 18,100 tokens. */
export const AGENT_TOKENS = 32_768;

/** In a shorter context, no agent works: with its default settings, the first prompt of Claude Code has 10,500 tokens. */
const MIN_AGENT_TOKENS = 16_384;

const MAX_SLOTS = 8;

/** Slots for an agent: one for its conversation, and one for the short requests that it sends meanwhile. */
const SLOTS_OF_AGENT = 2;

/** Slots and context lengths if agents do not fit, largest first. */
const SIZES = [
  [8, 16_384],
  [8, 8192],
  [8, 4096],
  [8, 2048],
  [4, 2048],
  [4, 1536],
  [2, 1536],
  [1, 1536],
  [1, 1024],
  [1, 512],
] as const;

/** Context up to which a KV cache may keep layers of the model from a GPU. */
const MAX_SMALL_TOKENS = 4096;

/** Maximum size of the KV cache in relation to the weights. It keeps the process of the default model at about 400 MB. */
const MAX_KV_SHARE = 1.5;

/**
 * Size up to which a KV cache may exceed `MAX_KV_SHARE`. llama.cpp clears the cache when it starts, which takes 0.6 to
 * 0.9 s for each gigabyte on slow virtual machines.
 */
const QUICK_KV_BYTES = 4 * 1024 ** 3;

/**
 * Chooses the slots and context length that are null in `options`: the largest size whose KV cache fits into half of the
 * memory that is left after everything else, in this order.
 *
 * 1. One slot of `AGENT_TOKENS`, or of the model's own context if that is shorter. A second slot, except on a GPU.
 * 2. More slots, up to 8, and then a longer context, up to the model's own. The KV cache is then at most 4 GiB or 1.5
 *    times the size of the weights. On a GPU, it is at most half of what the weights leave of the GPU's own memory, so
 *    that all layers stay there.
 * 3. `SIZES`, if even one such slot does not fit, or if the model's own context is shorter than any agent needs. The KV
 *    cache is then at most 1.5 times the size of the weights, if both values are chosen. The default model, with a
 *    context of 8,192 tokens, gets 4 slots of 1,536 in 400 MB: one slot of 8,192 would need more, and fit no agent.
 *
 * If none fits, returns the smallest plan, which `checkMemory` may refuse.
 */
export function planMemory(model: PlannedModel, options: PlanOptions, machine: PlannedMachine): MemoryPlan {
  const { embedding } = model;
  // A slot without a thread would only need memory. On a GPU, inputs are computed one after the other.
  const threads = machine.gpu ? 1 : (options.threads ?? availableParallelism());
  const sizes = embedding ? embeddingSizes(model, threads) : sizesOf(model);
  const plans = sizes.map(([slots, contextTokens]) => {
    const chosen = options.slots ?? slots;
    const context = options.contextTokens ?? Math.min(contextTokens, model.contextTokens);
    return embedding
      ? planEmbeddings(model, embedding, Math.min(chosen, threads), Math.min(context, model.contextTokens))
      : planOf(model, { slots: chosen, contextTokens: context, kvCache: options.kvCache }, machine.gpu);
  });
  const fits = (plan: MemoryPlan): boolean => {
    const remaining = machine.availableBytes - (totalBytes(plan) - plan.kvBytes);
    return plan.kvBytes <= Math.min(remaining / 2, maxKvBytes(plan, model, options, machine));
  };
  return plans.find(fits) ?? (plans.at(-1) as MemoryPlan); // `SIZES` is not empty.
}

/** Returns slots and context lengths, largest first. */
function sizesOf({
  contextTokens: own,
}: PlannedModel): readonly (readonly [slots: number, tokens: number])[] {
  if (own < MIN_AGENT_TOKENS) return SIZES;
  const sizes: [number, number][] = [];
  const needed = Math.min(AGENT_TOKENS, own);
  for (let context = own; context > needed; context = Math.floor(context / 2))
    sizes.push([MAX_SLOTS, context]);
  for (let slots = MAX_SLOTS; slots >= 1; slots--) sizes.push([slots, needed]);
  return [...sizes, ...SIZES];
}

/** Returns the maximum size of the KV cache, apart from the memory that is left for it. */
function maxKvBytes(
  { slots, contextTokens, weightBytes, computeBytes }: MemoryPlan,
  { embedding }: PlannedModel,
  options: PlanOptions,
  { vramBytes }: PlannedMachine,
): number {
  const isOnGpu = typeof vramBytes === 'number';
  const share = MAX_KV_SHARE * weightBytes;
  const small = options.slots === null && options.contextTokens === null ? share : Infinity;
  if (embedding !== null || contextTokens <= MAX_SMALL_TOKENS) return small;
  const onGpu = isOnGpu ? (vramBytes - weightBytes - computeBytes) / 2 : Infinity;
  if (contextTokens < MIN_AGENT_TOKENS) return Math.min(small, onGpu);
  const neededSlots = isOnGpu ? 1 : (options.slots ?? SLOTS_OF_AGENT);
  if (slots <= neededSlots && contextTokens <= (options.contextTokens ?? AGENT_TOKENS)) return Infinity;
  return isOnGpu ? onGpu : Math.max(QUICK_KV_BYTES, share);
}

/**
 * Returns slots and context lengths for embeddings, largest first. Short inputs are computed fastest with one thread each,
 * so there are as many slots as threads. Inputs can be as long as the model allows.
 */
function embeddingSizes({ contextTokens }: PlannedModel, threads: number): readonly [number, number][] {
  const sizes: [number, number][] = [[threads, contextTokens]];
  for (let context = contextTokens; context >= 512 || sizes.length === 1; context = Math.floor(context / 2))
    sizes.push([1, context]);
  return sizes;
}

/**
 * Inputs of embeddings with fewer tokens are computed in a context of their own, without flash attention: on a CPU, its
 * kernel for so few tokens takes up to 1.7 times as long. Longer inputs have a faster one.
 */
export const SHORT_INPUT = 64;

function planEmbeddings(
  model: PlannedModel,
  { pooling, causal }: EmbeddingInfo,
  slots: number,
  contextTokens: number,
): MemoryPlan {
  // Only the state of the last token is needed then, so that the batches of an input can follow each other.
  const batchTokens =
    causal && (pooling === 'last' || pooling === 'rank') ? Math.min(contextTokens, MAX_BATCH) : contextTokens;
  // The second term: which tokens see which others.
  const bytesOf = (batch: number, context: number) =>
    4 * batch * ((causal ? (model.vocabularySize ?? 150_000) : 0) + 8 * (model.embeddingLength ?? 1024)) +
    2 * batch * context;
  const batchBytes = bytesOf(batchTokens, contextTokens) + bytesOf(SHORT_INPUT, SHORT_INPUT);
  return {
    slots,
    contextTokens,
    batchTokens,
    weightBytes: model.sizeBytes,
    // llama.cpp rounds both up to 256 tokens.
    kvBytes: slots * (Math.ceil(contextTokens / 256) + 1) * 256 * model.kvBytesPerToken,
    computeBytes: slots * batchBytes,
    processBytes: PROCESS_BYTES,
  };
}

function planOf(
  model: PlannedModel,
  { slots, contextTokens, kvCache }: { slots: number; contextTokens: number; kvCache: KvCache | undefined },
  gpu: boolean,
): MemoryPlan {
  const { vocabularySize: vocabulary, embeddingLength: embedding } = model;
  const batchTokens = batchTokensOf(slots, contextTokens, gpu);
  return {
    slots,
    contextTokens,
    batchTokens,
    weightBytes: model.sizeBytes,
    // llama.cpp rounds the size of a slot up to a multiple of 256 tokens.
    kvBytes:
      slots *
      (Math.ceil(contextTokens / 256) * 256 * kvBytesPerToken(model, kvCache) + model.stateBytesPerSlot),
    computeBytes: 4 * batchTokens * ((vocabulary ?? 150_000) + 8 * (embedding ?? 0)),
    processBytes: PROCESS_BYTES + slots * MAX_CHECKPOINTS * model.stateBytesPerSlot,
  };
}

export function kvBytesPerToken(model: PlannedModel, kvCache: KvCache = 'f16'): number {
  return model.kvBytesPerToken * (kvCache === 'q8_0' ? 34 / 64 : 1);
}

/**
 * Returns the maximum tokens of a batch. In a short context on a CPU, 128 tokens reach 97% of the prefill speed of 512 and
 * need a quarter of the memory. With more slots, more prompts arrive together: computed in one step, they do not delay
 * each other.
 */
function batchTokensOf(slots: number, contextTokens: number, gpu: boolean): number {
  if (gpu || contextTokens > MAX_SMALL_TOKENS) return MAX_BATCH;
  return Math.min(MAX_BATCH, Math.max(MIN_BATCH, 32 * slots));
}

const MIN_BATCH = 128;
const MAX_BATCH = 512;

const PROCESS_BYTES = 125 * 1024 * 1024;

/** Maximum number of earlier states that are kept of a slot, if the model has recurrent layers. */
export const MAX_CHECKPOINTS = 3;

export function totalBytes(plan: MemoryPlan): number {
  return plan.weightBytes + plan.kvBytes + plan.computeBytes + plan.processBytes;
}

/** Formats the plan in one line, for the log and `sluice doctor`. */
export function describePlan(plan: MemoryPlan): string {
  const { slots, contextTokens, weightBytes, kvBytes, computeBytes, processBytes } = plan;
  return (
    `weights ${megabytes(weightBytes)}, ` +
    `KV cache ${slots} × ${tokens(contextTokens)} ${megabytes(kvBytes)}, ` +
    `compute ${megabytes(computeBytes)}, process ${megabytes(processBytes)}; ` +
    `total ${megabytes(totalBytes(plan))}`
  );
}

/**
 * Returns whether agents fit into the slots of a model that generates text and, if not, which settings would change
 * that. For the log and `sluice doctor`.
 */
export function describeAgents(plan: MemoryPlan, model: PlannedModel, machine: PlannedMachine): string {
  const { slots, contextTokens } = plan;
  const size = `${slots} ${slots === 1 ? 'slot' : 'slots'} of ${tokens(contextTokens)}`;
  if (contextTokens >= AGENT_TOKENS) return `${size}: agents fit`;
  const short = `${size}: too short for agents, which need ${tokens(AGENT_TOKENS)}`;
  if (model.contextTokens < AGENT_TOKENS)
    return `${short}; the model supports at most ${tokens(model.contextTokens)}`;
  const kvCache = KV_CACHES.find((each) => {
    const options = { slots: 1, contextTokens: AGENT_TOKENS, kvCache: each };
    return totalBytes(planMemory(model, options, machine)) <= machine.availableBytes;
  });
  if (kvCache === undefined) return `${short}; there is not enough memory for this`;
  const settings =
    kvCache === 'f16'
      ? `slots to 1 and contextTokens to ${AGENT_TOKENS}`
      : `slots to 1, contextTokens to ${AGENT_TOKENS} and kvCache to ${kvCache}`;
  return `${short}; to make them fit, set ${settings}`;
}

/** Throws `NotEnoughMemory`. */
export function checkMemory(plan: MemoryPlan, available: AvailableMemory = availableMemory()): void {
  if (totalBytes(plan) <= available.bytes) return;
  const location =
    available.limit === 'cgroup'
      ? "available within the container's memory limit (cgroup)"
      : 'available on this machine';
  throw new NotEnoughMemory(
    `Not enough memory: the model needs ${megabytes(totalBytes(plan))} (${describePlan(plan)}), but only ` +
      `${megabytes(available.bytes)} are ${location}. Use fewer slots, a smaller contextTokens or a smaller model.`,
  );
}

const TMPFS = 0x0102_1994;

export function isInMemory({ type }: Pick<StatsFs, 'type'>): boolean {
  return type === TMPFS;
}

/**
 * Returns how much of a model's files is on a RAM disk, in bytes. The engine needs no more memory for it, and the system
 * counts it as used already.
 */
export async function bytesInMemory(
  file: string,
  { sizeBytes }: Pick<PlannedModel, 'sizeBytes'>,
): Promise<number> {
  return isInMemory(await statfs(file)) ? sizeBytes : 0;
}

/**
 * Returns the memory that is available on the machine or, if that is less, in the process's cgroups (v1 or v2). `root`
 * is the root of the file system.
 */
export function availableMemory(root = '/'): AvailableMemory {
  const machine = machineBytes(root);
  const cgroup = cgroupBytes(root);
  return cgroup !== null && cgroup < machine
    ? { bytes: cgroup, limit: 'cgroup' }
    : { bytes: machine, limit: 'machine' };
}

function machineBytes(root: string): number {
  const kilobytes = /^MemAvailable:\s+(\d+) kB$/m.exec(read(join(root, 'proc/meminfo')) ?? '')?.[1];
  if (kilobytes !== undefined) return Number(kilobytes) * 1024;
  // macOS counts its file cache as used but frees it on demand, so assume that at least half of the memory is
  // available.
  return process.platform === 'darwin' ? Math.max(freemem(), totalmem() / 2) : freemem();
}

/**
 * Returns the least memory that is left in any of the process's cgroups and their parents, or null if none has a limit.
 */
function cgroupBytes(root: string): number | null {
  let smallest: number | null = null;
  for (const line of (read(join(root, 'proc/self/cgroup')) ?? '').split('\n')) {
    const [id, controllers, path] = line.split(':', 3);
    if (path === undefined) continue;
    const version = id === '0' ? V2 : controllers?.split(',').includes('memory') ? V1 : null;
    if (version === null) continue;
    for (let group = path; ; group = dirname(group)) {
      const remaining = remainingIn(join(root, 'sys/fs/cgroup', version.folder, group), version);
      if (remaining !== null && (smallest === null || remaining < smallest)) smallest = remaining;
      if (group === dirname(group)) break;
    }
  }
  return smallest;
}

const V2 = { folder: '', limit: 'memory.max', usage: 'memory.current', cache: 'inactive_file' };
const V1 = {
  folder: 'memory',
  limit: 'memory.limit_in_bytes',
  usage: 'memory.usage_in_bytes',
  cache: 'total_inactive_file',
};

function remainingIn(folder: string, version: typeof V2): number | null {
  const limit = Number(read(join(folder, version.limit))?.trim());
  // The value is "max" (v2) or a number near 2^63 (v1) if there is no limit.
  if (!Number.isFinite(limit) || limit >= Number.MAX_SAFE_INTEGER || limit === 0) return null;
  const usage = Number(read(join(folder, version.usage))?.trim() ?? 0);
  // The file cache counts as used, for example after a download, but can be freed immediately.
  const cache = new RegExp(`^${version.cache} (\\d+)$`, 'm').exec(
    read(join(folder, 'memory.stat')) ?? '',
  )?.[1];
  return Math.max(0, limit - Math.max(0, usage - Number(cache ?? 0)));
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null; // For example, on another operating system.
  }
}

function tokens(count: number): string {
  return `${count.toLocaleString('en-US')} tokens`;
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1_000_000).toLocaleString('en-US')} MB`;
}
