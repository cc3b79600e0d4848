import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ModelFileError } from '../../../models/errors.ts';
import type { AddonContext, AddonContextOptions, AddonModel, SamplerConfig } from './addon.ts';
import type { Backend } from './backend.ts';
import { SHORT_INPUT, type KvCache } from '../../../models/memory.ts';
import { ThreadCount } from './thread-count.ts';
import { type NativeGrammar, NativeSampler, GarbageTrigger } from './sampler.ts';
import { NativeContext, NativeEmbeddingContext } from './context.ts';

/**
 * Only this file, `context.ts` and `sampler.ts` create and use models, contexts, samplers and grammars of the native addon. They
 * assert that calls cannot make the addon crash or return wrong results, for example with invalid positions or during a decode.
 */

/** llama.cpp could not allocate memory, of the machine or of the GPU. */
export class AllocationError extends Error {
  override readonly name = 'AllocationError';
}

/** A loaded model file. Dispose of its contexts first. */
export class NativeModel {
  readonly #backend: Backend;
  readonly #native: AddonModel;
  readonly #file: string;
  readonly #garbageTrigger = new GarbageTrigger();
  #disposed = false;

  private constructor(backend: Backend, native: AddonModel, file: string) {
    this.#backend = backend;
    this.#native = native;
    this.#file = file;
  }

  /**
   * Loads `file`. `onProgress` receives ascending fractions, 0 to 1. Rejects with a `ModelFileError` or an
   * `AllocationError`.
   */
  static async load(
    backend: Backend,
    file: string,
    options: { gpuLayers: number; onProgress(fraction: number): void },
  ): Promise<NativeModel> {
    const native = new backend.addon.AddonModel(file, {
      addonExports: backend.addon,
      gpuLayers: options.gpuLayers,
      useMmap: true,
      onLoadProgress: (fraction) => options.onProgress(fraction),
    });
    backend.errors.length = 0;
    const loaded = await native.init();
    // Progress and log messages of llama.cpp's thread arrive in the next turn of the event loop.
    await nextTurn();
    // Using a model whose `init` returned false causes a segmentation fault.
    if (!loaded) throw loadError(backend, file);
    return new NativeModel(backend, native, file);
  }

  /**
   * Tokenizes without adding BOS. With `special`, the text of a control token becomes that token. Synchronous: about
   * 1 ms per kilobyte.
   */
  tokenize(text: string, special: boolean): Uint32Array {
    return this.#model().tokenize(text, special);
  }

  /** Omits control tokens, unless `special` is true. */
  detokenize(tokens: Uint32Array, special: boolean): string {
    return this.#model().detokenize(tokens, special);
  }

  /** Returns a token's stored text, its attribute bits, and whether it ends the output. `token` must exist. */
  token(token: number): { text: string; attributes: number; ends: boolean } {
    const native = this.#model();
    return {
      text: native.getTokenString(token),
      attributes: native.getTokenAttributes(token),
      ends: native.isEogToken(token),
    };
  }

  /** The tokenizer type, as llama.cpp numbers it. */
  get vocabularyType(): number {
    return this.#model().getVocabularyType();
  }

  get bosToken(): number | null {
    return tokenOrNull(this.#model().tokenBos());
  }

  /** Dimensions of an embedding. */
  get embeddingLength(): number {
    return this.#model().getEmbeddingVectorSize();
  }

  get eosToken(): number | null {
    return tokenOrNull(this.#model().tokenEos());
  }

  /** Whether every prompt starts with BOS, regardless of the chat template. */
  get addsBos(): boolean {
    return this.#model().shouldPrependBosToken();
  }

  /**
   * The tokens that the model expects around a text. A BERT tokenizer always adds its separator, although the file does
   * not say so.
   */
  get textFrame(): { before: readonly number[]; after: readonly number[] } {
    const native = this.#model();
    const wordPiece = native.getVocabularyType() === WORD_PIECE;
    const end = wordPiece ? native.sepToken() : native.shouldAppendEosToken() ? native.tokenEos() : undefined;
    return { before: this.addsBos ? listed(native.tokenBos()) : [], after: listed(end) };
  }

  /**
   * The tokens that the model expects between two texts. `adds`: whether its file says that a separator follows the end of
   * the first. XLM-RoBERTa has one, which older files do not say.
   */
  textSeparator(adds: boolean | null): readonly number[] {
    const native = this.#model();
    const { after } = this.textFrame;
    const type = native.getVocabularyType();
    return type !== WORD_PIECE && (adds ?? type === UNIGRAM)
      ? [...after, ...listed(native.sepToken())]
      : after;
  }

  /** Parses GBNF synchronously. Returns null if it is invalid. Each choice needs its own `copyGrammar`. */
  grammar(gbnf: string): NativeGrammar | null {
    const { addon } = this.#backend;
    let parsed;
    try {
      parsed = new addon.AddonGrammar(gbnf, { addonExports: addon });
    } catch {
      return null; // The constructor throws only for invalid GBNF.
    }
    return { state: new addon.AddonGrammarEvaluationState(this.#model(), parsed) };
  }

  copyGrammar(grammar: NativeGrammar): NativeGrammar {
    this.#garbageTrigger.allocated();
    return { state: new this.#backend.addon.AddonGrammarEvaluationState(grammar.state) };
  }

  /** Advances a grammar by a token that was sampled without it. Returns false if the token is not allowed. */
  advance({ state }: NativeGrammar, token: number): boolean {
    const { AddonSampler } = this.#backend.addon;
    if (!AddonSampler.canBeNextTokenForGrammarEvaluationState(state, token)) return false;
    AddonSampler.acceptGrammarEvaluationStateToken(state, token);
    return true;
  }

  /** Creates a sampler for one choice. A sampler keeps the state of penalties, grammar and random numbers. */
  sampler(config: SamplerConfig, grammar: NativeGrammar | null = null): NativeSampler {
    this.#garbageTrigger.allocated();
    const sampler = new NativeSampler(new this.#backend.addon.AddonSampler(this.#model()), config);
    sampler.constrain(grammar);
    return sampler;
  }

  /**
   * Creates a context for `slots` sequences of at least `slotTokens` each. Rejects with an `AllocationError`, and with a
   * `ModelFileError` if the model does not support `kvCache`.
   */
  async context(options: {
    slots: number;
    slotTokens: number;
    batchTokens: number;
    threads: number;
    /** Default: `f16`. */
    kvCache?: KvCache | undefined;
  }): Promise<NativeContext> {
    const type = CACHE_TYPES[options.kvCache ?? 'f16'];
    const native = await this.#context({
      contextSize: options.slotTokens * options.slots,
      batchSize: options.batchTokens,
      sequences: options.slots,
      flashAttention: 'auto',
      threads: options.threads,
      // Otherwise, layers with a sliding window keep only the latest tokens. `trim` would still return true, and a
      // later decode would compute wrong logits.
      swaFullCache: true,
      kvCacheKeyType: type,
      kvCacheValueType: type,
    });
    // A GPU computes while the threads wait.
    const threads = this.#backend.kind === 'cpu' ? new ThreadCount(options.threads) : null;
    const { AddonContextSequenceCheckpoint } = this.#backend.addon;
    return new NativeContext(native, AddonContextSequenceCheckpoint, options, threads);
  }

  /**
   * Creates a context that computes embeddings of at most `inputTokens` tokens. An input is computed in batches of
   * `batchTokens`. Only models in which tokens cannot see later ones can compute it in several.
   */
  async embeddingContext(options: {
    inputTokens: number;
    batchTokens: number;
    threads: number;
    /** Whether it computes the outputs of a classifier instead. */
    ranking: boolean;
  }): Promise<NativeEmbeddingContext> {
    const { inputTokens, batchTokens, threads, ranking } = options;
    const shared = { sequences: 1, threads, swaFullCache: false, embeddings: true, ranking };
    const native = await this.#context({
      ...shared,
      contextSize: inputTokens,
      batchSize: batchTokens,
      flashAttention: 'auto',
    });
    if (Math.min(inputTokens, batchTokens) < SHORT_INPUT)
      return new NativeEmbeddingContext(native, null, options);
    const sizes = { contextSize: SHORT_INPUT, batchSize: SHORT_INPUT };
    try {
      const short = await this.#context({ ...shared, ...sizes, flashAttention: false });
      return new NativeEmbeddingContext(native, short, options);
    } catch (error) {
      await native.dispose();
      throw error;
    }
  }

  async #context(options: AddonContextOptions): Promise<AddonContext> {
    const { addon, errors } = this.#backend;
    const native = new addon.AddonContext(this.#model(), options);
    errors.length = 0;
    const created = await native.init();
    // As in `load`.
    await nextTurn();
    if (created) return native;
    const unsupported = errors.find((error) => CACHE_TYPE_ERROR.test(error));
    if (unsupported !== undefined)
      throw new ModelFileError('unsupported', this.#file, `the model needs \`kvCache: f16\`: ${unsupported}`);
    throw new AllocationError(errors[0] ?? 'not enough memory for the context');
  }

  async dispose(): Promise<void> {
    if (this.#disposed) return;
    this.#disposed = true;
    await this.#native.dispose();
  }

  #model(): AddonModel {
    assert(!this.#disposed, 'the model is disposed');
    return this.#native;
  }
}

/** GGUF's numbers of the types. */
const CACHE_TYPES = { f16: 1, q8_0: 8 } as const satisfies Record<KvCache, number>;

/** Matches llama.cpp's errors about types that it does not support for the model, such as those of small heads. */
const CACHE_TYPE_ERROR = /\b[KV] cache\b/;

/** Uses the first error that llama.cpp logged, which is the most specific. */
function loadError(backend: Backend, file: string): Error {
  const [reason = 'no reason reported'] = backend.errors;
  if (/failed to allocate/.test(reason)) return new AllocationError(reason);
  return new ModelFileError('unsupported', file, `llama.cpp cannot load the file: ${reason}`);
}

/** llama.cpp's tokenizer types of BERT and XLM-RoBERTa. */
const WORD_PIECE = 3;
const UNIGRAM = 4;

function listed(token = -1): readonly number[] {
  return token >= 0 ? [token] : [];
}

function tokenOrNull(token: number): number | null {
  return token >= 0 ? token : null;
}
