import { ServiceError } from '../../core/errors.ts';
import { modalityOf, outputOf, refuseOtherKind } from '../../core/features.ts';
import { NO_USAGE, type GenerationEvent, type GenerationRequest } from '../../core/generation.ts';
import { ModelFileError } from '../../models/errors.ts';
import { readGguf, type GgufInfo } from '../../models/gguf.ts';
import type { Engine, EngineHealth, ModelDescription } from '../engine.ts';
import type { NativeEmbeddingContext } from './native/context.ts';
import type { NativeModel } from './native/model.ts';
import { EmbeddingPool } from './embeddings/embedding-pool.ts';
import { EmbeddingTokenizer } from './embeddings/embedding-tokenizer.ts';
import {
  checkAllocation,
  loadWeights,
  type LlamaOptions,
  type LoadHooks,
  type Weights,
} from './load-model.ts';
import { Vocabulary } from './prompt/vocabulary.ts';

/**
 * llama.cpp in this process, for a model that computes embeddings, or scores of documents. Computes as many inputs at the
 * same time as it has slots, if `UV_THREADPOOL_SIZE` is at least this number.
 */
export class EmbeddingEngine implements Engine, AsyncDisposable {
  /** For the log, as in `LlamaEngine`. */
  readonly backend: string;
  /** As in `LlamaEngine`. Stays pending: an input that fails does not affect others. */
  readonly failed = new Promise<void>(() => {});
  readonly #info: GgufInfo;
  readonly #model: NativeModel;
  readonly #inputTokens: number;
  readonly #dimensions: number;
  readonly #modality: string;
  readonly #tokenizer: EmbeddingTokenizer;
  readonly #pool: EmbeddingPool;

  private constructor(
    info: GgufInfo,
    model: NativeModel,
    pool: EmbeddingPool,
    { inputTokens, backend }: { inputTokens: number; backend: string },
  ) {
    this.backend = backend;
    this.#info = info;
    this.#model = model;
    this.#inputTokens = inputTokens;
    this.#dimensions = model.embeddingLength;
    this.#modality = modalityOf(info.embedding);
    const vocabulary = new Vocabulary(model, info.vocabularySize ?? 0);
    this.#tokenizer = new EmbeddingTokenizer({ model, vocabulary }, info, inputTokens);
    this.#pool = pool;
  }

  /** Loads the model and warms up. Rejects as `LlamaEngine.load` does, and for a model whose vectors cannot be used. */
  static async load(options: LlamaOptions, hooks: LoadHooks, metadata?: GgufInfo): Promise<EmbeddingEngine> {
    const info = metadata ?? (await readGguf(options.file));
    checkPooling(info);
    const ranking = info.embedding?.pooling === 'rank';
    const loaded = await loadWeights(info, options, hooks, (weights) => createContexts(weights, ranking));
    const { model, contexts, plan, threads, backend } = loaded;
    const { contextTokens: inputTokens, batchTokens } = plan;
    checkAllocation(
      plan,
      contexts.reduce((sum, { allocatedBytes }) => sum + allocatedBytes, 0),
      hooks.log,
    );
    const pool = new EmbeddingPool(contexts, { threads, batchTokens });
    const engine = new EmbeddingEngine(info, model, pool, { inputTokens, backend });
    const { signal } = new AbortController();
    const warmUp = await engine.#tokenizer.tokenize(
      contexts.map(() => WARM_UP),
      signal,
    );
    for (const pooled of await Promise.all(warmUp.map((tokens) => pool.compute(tokens, signal))))
      engine.#eventOf(0, pooled);
    return engine;
  }

  get slots(): number {
    return this.#pool.slots;
  }

  /**
   * Tokenizes and checks all inputs, and then computes them while the events are read, in their order. Inputs of several
   * requests take turns. When aborted, throws the reason of the signal after the inputs that are being computed. Throws
   * 400 as `EmbeddingTokenizer` does, for requests of another kind, and for `dimensions` that the model does not have.
   */
  async *generate(request: GenerationRequest, signal: AbortSignal): AsyncGenerator<GenerationEvent> {
    const tokens = await this.#tokenize(request, signal);
    const usage = { ...NO_USAGE, promptTokens: count(tokens) };
    yield { type: 'started', promptTokens: usage.promptTokens, cachedTokens: 0 };
    yield* this.#results(tokens, signal);
    yield { type: 'end', usage, usageSource: 'engine' };
  }

  async countPromptTokens(request: GenerationRequest, signal: AbortSignal): Promise<number> {
    return count(await this.#tokenize(request, signal));
  }

  /** Nothing is kept of an input. */
  forget(): void {}

  health(): EngineHealth {
    const { slots, slotsInUse, queued, lastStepAgeMs, fullStepMs, promptTokens } = this.#pool;
    return {
      slots,
      slotsInUse,
      queued,
      lastStepAgeMs,
      expectedStepMs: fullStepMs,
      promptTokens,
      cachedTokens: 0,
      completionTokens: 0,
    };
  }

  describe(): ModelDescription {
    const { quantization, tokenizerFamily } = this.#info;
    return {
      contextTokens: this.#inputTokens,
      maxCompletionTokens: null,
      quantization,
      tokenizer: tokenizerFamily,
      instructType: null,
      modality: this.#modality,
    };
  }

  /** Ends running requests with 503 `shutting_down` and frees the model. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool.stop(new ServiceError('shutting_down', 'The engine is stopping.'));
    await this.#model.dispose();
  }

  async #tokenize(request: GenerationRequest, signal: AbortSignal): Promise<Uint32Array[]> {
    signal.throwIfAborted();
    refuseOtherKind(request, outputOf(this.#modality));
    switch (request.kind) {
      case 'embedding':
        this.#checkDimensions(request.dimensions);
        return await this.#tokenizer.tokenize(request.inputs, signal);
      case 'rerank':
        return await this.#tokenizer.pairs(request.query, request.documents, signal);
      case 'chat':
      case 'text':
        return []; // Refused above.
    }
  }

  #checkDimensions(dimensions: number | null): void {
    // Shorter vectors are only useful from models that were trained for them, which a file does not say.
    if (dimensions === null || dimensions === this.#dimensions) return;
    throw new ServiceError(
      'invalid_value',
      `The embeddings of this model have ${this.#dimensions} dimensions; \`dimensions\` must be ${this.#dimensions} or absent, not ${dimensions}.`,
      { param: 'dimensions' },
    );
  }

  async *#results(tokens: readonly Uint32Array[], signal: AbortSignal): AsyncGenerator<GenerationEvent> {
    // Enough that no slot waits for the reader, and few enough that the inputs of other requests are next soon.
    const ahead = 2 * this.slots;
    const reading = new AbortController();
    const either = AbortSignal.any([signal, reading.signal]);
    const running: Promise<Float64Array>[] = [];
    let next = 0;
    try {
      for (let index = 0; index < tokens.length; index++) {
        for (; next < Math.min(tokens.length, index + ahead); next++) {
          const pooled = this.#pool.compute(tokens[next] as Uint32Array, either);
          // Only the first failure is thrown.
          pooled.catch(() => {});
          running.push(pooled);
        }
        const event = this.#eventOf(index, (await running.shift()) as Float64Array);
        signal.throwIfAborted();
        yield event;
      }
    } finally {
      reading.abort();
    }
  }

  #eventOf(index: number, pooled: Float64Array): GenerationEvent {
    if (this.#info.embedding?.pooling !== 'rank')
      return { type: 'embedding', index, vector: normalized(pooled) };
    const output = pooled[0] ?? Number.NaN;
    if (!Number.isFinite(output)) throw new Error('llama.cpp computed no usable score');
    // llama.cpp returns the probability for these, and the logit for others.
    const isProbability = PROBABILITIES.has(this.#info.architecture);
    return { type: 'score', index, score: isProbability ? output : 1 / (1 + Math.exp(-output)) };
  }
}

/** The architectures that end with a softmax over the words "yes" and "no". */
const PROBABILITIES: ReadonlySet<string> = new Set(['qwen3', 'qwen3vl']);

async function createContexts(
  { model, plan, threads }: Weights,
  ranking: boolean,
): Promise<NativeEmbeddingContext[]> {
  const { contextTokens: inputTokens, batchTokens } = plan;
  const contexts: NativeEmbeddingContext[] = [];
  try {
    while (contexts.length < plan.slots)
      contexts.push(await model.embeddingContext({ inputTokens, batchTokens, threads, ranking }));
  } catch (error) {
    for (const context of contexts) await context.dispose();
    throw error;
  }
  return contexts;
}

function count(inputs: readonly Uint32Array[]): number {
  return inputs.reduce((sum, { length }) => sum + length, 0);
}

/** Throws `ModelFileError` unless llama.cpp makes one vector, or one score, of an input. */
function checkPooling({ path, embedding }: GgufInfo): void {
  switch (embedding?.pooling) {
    case 'mean':
    case 'cls':
    case 'last':
    case 'rank':
      return;
    case 'none':
    case undefined:
      throw new ModelFileError(
        'unsupported',
        path,
        'its metadata does not tell how to make one embedding of a text (`pooling_type` must be mean, cls, last or rank)',
      );
  }
}

/** Scales a vector to the length 1. Throws if it has no direction. */
function normalized(vector: Float64Array): Float32Array<ArrayBuffer> {
  const length = Math.hypot(...vector);
  if (!Number.isFinite(length) || length === 0) throw new Error('llama.cpp computed no usable embedding');
  return Float32Array.from(vector, (value) => value / length);
}

const WARM_UP = 'Hello';
