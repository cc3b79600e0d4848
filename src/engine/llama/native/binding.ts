import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ModelFileError } from '../../../models/errors.ts';
import type {
  AddonContext,
  AddonContextOptions,
  AddonGrammarState,
  AddonModel,
  AddonSampler,
  SamplerConfig,
} from './addon.ts';
import type { Backend } from './backend.ts';
import { SHORT_INPUT } from '../../../models/memory.ts';
import type { KvCache } from '../../../models/memory.ts';
import { ThreadCount } from './thread-count.ts';

/**
 * The only module that creates and uses models, contexts, samplers and grammars of the native addon. Asserts that calls
 * cannot make the addon crash or return wrong results, for example with invalid positions or during a decode.
 */

/** llama.cpp could not allocate memory, of the machine or of the GPU. */
export class AllocationError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'AllocationError';
  }
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
    const listed = (token = -1) => (token >= 0 ? [token] : []);
    return { before: this.addsBos ? listed(native.tokenBos()) : [], after: listed(end) };
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
    return new NativeContext(native, options.slots, options.batchTokens, threads);
  }

  /**
   * Creates a context that computes embeddings of at most `inputTokens` tokens. An input is computed in batches of
   * `batchTokens`. Only models in which tokens cannot see later ones can compute it in several.
   */
  async embeddingContext(options: {
    inputTokens: number;
    batchTokens: number;
    threads: number;
  }): Promise<NativeEmbeddingContext> {
    const { inputTokens, batchTokens, threads } = options;
    const shared = { sequences: 1, threads, swaFullCache: false, embeddings: true };
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

/** llama.cpp's tokenizer type of BERT. */
const WORD_PIECE = 3;

function tokenOrNull(token: number): number | null {
  return token >= 0 ? token : null;
}

/** A parsed grammar and its state. */
export interface NativeGrammar {
  readonly state: AddonGrammarState;
}

export class NativeSampler {
  readonly #native: AddonSampler;
  readonly #config: SamplerConfig;
  /** The tokens that penalties count; null without penalties. */
  readonly #history: number[] | null;
  #disposed = false;

  constructor(native: AddonSampler, config: SamplerConfig) {
    this.#native = native;
    this.#config = config;
    this.#history = config.repeatPenaltyTokens === undefined ? null : [...config.repeatPenaltyTokens];
  }

  /**
   * Constrains the next tokens to a grammar; null removes the constraint. Keeps the state of penalties and random
   * numbers.
   */
  constrain(grammar: NativeGrammar | null): void {
    this.native.applyConfig({
      ...this.#config,
      // The addon keeps the state of the penalties only if these tokens are the same as its own.
      ...(this.#history !== null && { repeatPenaltyTokens: Uint32Array.from(this.#history) }),
      ...(grammar !== null && { grammarEvaluationState: grammar.state }),
    });
  }

  /** For `NativeContext` only. Call it with each token that the sampler has returned. */
  accept(token: number): void {
    this.#history?.push(token);
  }

  /** For `NativeContext` only. */
  get native(): AddonSampler {
    assert(!this.#disposed, 'the sampler is disposed');
    return this.#native;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#native.dispose();
  }
}

/**
 * Starts a garbage collection after every 32 samplers and copies of grammars, because V8 does not account for native
 * memory: a sampler uses 12 bytes per token of the vocabulary, and a grammar up to 2 MB. Neither is freed when it is
 * disposed of.
 */
class GarbageTrigger {
  #objects = 0;

  allocated(): void {
    if (++this.#objects < 32) return;
    this.#objects = 0;
    // The collection takes a few milliseconds, but runs as a separate task, after the next decode has started.
    void collectGarbage({ type: 'major', execution: 'async' });
  }
}

// Only V8 contexts that are created after this flag is set have `gc`.
setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as NodeJS.GCFunction;

/** `logits` alternates tokens and their logits. `totalWeight` is the sum of exp(logit - max). */
export interface NativeReading {
  likeliest: number;
  logits: readonly number[];
  totalWeight: number;
}

const NO_LOGITS = new Uint32Array(0);
const FIRST_TOKEN = new Uint32Array([0]);

/** Sequences with their KV cache. Must not be used while `decode()` is pending. */
export class NativeContext {
  readonly slots: number;
  /** Maximum tokens of each sequence. It can be larger than requested, because llama.cpp rounds up. */
  readonly slotTokens: number;
  readonly batchTokens: number;
  /** Bytes that llama.cpp allocated for KV cache, recurrent state and compute buffers, in all memories. */
  readonly allocatedBytes: number;
  readonly #native: AddonContext;
  /** Null if the number of threads never changes. */
  readonly #threads: ThreadCount | null;
  /** 1 for each position of the batch whose logits were requested. */
  readonly #logits: Uint8Array;
  /** Sequences that were copied, or copied to, since the last decode, which copies their data. */
  readonly #copied = new Set<number>();
  #added = 0;
  #batch = 0;
  /** Whether a decode, or another operation that needs all sequences, is running. */
  #decoding = false;
  #sampling = 0;
  #disposed = false;

  constructor(native: AddonContext, slots: number, batchTokens: number, threads: ThreadCount | null) {
    this.#native = native;
    this.#threads = threads;
    this.slots = slots;
    this.slotTokens = Math.floor(native.getContextSize() / slots);
    this.batchTokens = batchTokens;
    const { cpuRam, gpuVram } = native.getMemoryBreakdown();
    this.allocatedBytes = cpuRam + gpuVram;
    this.#logits = new Uint8Array(batchTokens);
  }

  /** Starts a batch of exactly `tokens` tokens, at most `batchTokens`. */
  begin(tokens: number): void {
    this.#assertIdle();
    assert(tokens > 0 && tokens <= this.batchTokens, 'batch size');
    this.#native.initBatch(tokens);
    this.#logits.fill(0);
    this.#batch = tokens;
    this.#added = 0;
  }

  /**
   * Adds a sequence's next tokens. Logits are computed for the last `logits` of them. Returns the logit index of the
   * first of these, which the others follow, or -1 if there are none.
   */
  add(sequence: number, position: number, tokens: Uint32Array, logits: number): number {
    this.#assertIdle();
    this.#assertSequence(sequence);
    // Otherwise, llama.cpp would fail the whole batch, including the tokens of other requests.
    assert(position >= 0 && position + tokens.length <= this.slotTokens, 'position past the slot');
    assert(tokens.length > 0 && this.#added + tokens.length <= this.#batch, 'more tokens than the batch has');
    assert(Number.isInteger(logits) && logits >= 0 && logits <= tokens.length, 'number of logits');
    this.#added += tokens.length;
    if (logits === 0) {
      this.#native.addToBatch(sequence, position, tokens, NO_LOGITS);
      return -1;
    }
    const from = tokens.length - logits;
    const indexes =
      tokens.length === 1 ? FIRST_TOKEN : Uint32Array.from({ length: logits }, (_, i) => from + i);
    const first = this.#native.addToBatch(sequence, position, tokens, indexes)[0];
    assert(first !== undefined && first + logits <= this.#batch, 'logit index');
    this.#logits.fill(1, first, first + logits);
    return first;
  }

  /** Computes the batch. If this rejects, the state of the sequences in the batch is unknown: `clear` them. */
  async decode(): Promise<void> {
    this.#assertIdle();
    assert(this.#added === this.#batch && this.#batch > 0, 'the batch is not full');
    this.#decoding = true;
    this.#batch = 0;
    const threads = this.#threads;
    const startedAt = performance.now();
    const usage = threads === null ? undefined : process.cpuUsage();
    try {
      await this.#native.decodeBatch();
      this.#copied.clear();
    } finally {
      this.#decoding = false;
    }
    if (threads === null) return;
    const { user, system } = process.cpuUsage(usage);
    threads.observe(performance.now() - startedAt, (user + system) / 1000);
    this.#native.setThreads(threads.current);
  }

  /** Samples the next token at a logit index of the last decode, and updates the sampler's state. */
  async sample(index: number, sampler: NativeSampler): Promise<number> {
    this.#assertReadable(index);
    this.#sampling++;
    try {
      const token = await this.#native.sampleToken(index, sampler.native);
      if (token < 0) throw new Error('no token could be sampled');
      sampler.accept(token);
      return token;
    } finally {
      this.#sampling--;
    }
  }

  /**
   * Reads the logits of `tokens` and of the `top` likeliest tokens. If the sampler has `topK`, `totalWeight` covers
   * only its top K tokens.
   */
  async read(
    index: number,
    sampler: NativeSampler,
    tokens: readonly number[],
    top: number,
  ): Promise<NativeReading> {
    this.#assertReadable(index);
    this.#sampling++;
    try {
      const selected = top === 0;
      const sample = await this.#native.sampleToken(
        index,
        sampler.native,
        false,
        false,
        [tokens, false, false, selected, top],
        true,
      );
      const [likeliest, , , logits, totalWeight] = sample;
      if (likeliest < 0 || logits === undefined || totalWeight === undefined)
        throw new Error('no logits could be read');
      return { likeliest, logits, totalWeight };
    } finally {
      this.#sampling--;
    }
  }

  /** Returns the logits of all tokens. Slow, but the only way to determine the size of the vocabulary. */
  async logits(index: number, sampler: NativeSampler): Promise<Float32Array> {
    this.#assertReadable(index);
    const [, , , pairs] = await this.#native.sampleToken(index, sampler.native, false, false, true, false);
    assert(pairs !== undefined && pairs.length > 0, 'no logits');
    const row = new Float32Array(pairs.length / 2);
    for (let i = 0; i + 1 < pairs.length; i += 2) row[pairs[i] as number] = pairs[i + 1] as number;
    return row;
  }

  /** Copies a sequence. llama.cpp copies the data during the next decode. */
  async copy(target: number, source: number): Promise<void> {
    this.#assertIdle();
    this.#assertSequence(target);
    this.#assertSequence(source);
    assert(target !== source, 'a sequence cannot be copied to itself');
    this.#copied.add(target).add(source);
    await this.#alone(() => this.#native.copySequenceStateFromOtherSequence(target, source));
  }

  /**
   * Whether a sequence can be saved or loaded. Between a copy and the next decode, saving would write old data, and
   * loading would change the copy.
   */
  canStore(sequence: number): boolean {
    this.#assertSequence(sequence);
    return !this.#copied.has(sequence);
  }

  /**
   * Writes a sequence with its tokens to a file, which is replaced. Returns the bytes written. Rejects if the file cannot
   * be written as a whole.
   */
  async save(sequence: number, tokens: Uint32Array, file: string): Promise<number> {
    this.#assertIdle();
    assert(this.canStore(sequence), 'the sequence is being copied');
    assert(tokens.length > 0 && tokens.length <= this.slotTokens, 'tokens to save');
    return await this.#alone(() => this.#native.saveSequenceStateToFile(file, sequence, tokens));
  }

  /**
   * Replaces a sequence with the one that `save` wrote, and returns its tokens. If this rejects, `clear` the sequence.
   */
  async load(sequence: number, file: string): Promise<Uint32Array> {
    this.#assertIdle();
    assert(this.canStore(sequence), 'the sequence is being copied');
    return await this.#alone(() => this.#native.loadSequenceStateFromFile(file, sequence, this.slotTokens));
  }

  /** Keeps only the first `keep` tokens of a sequence. Returns false if the model cannot do this; then call `clear`. */
  trim(sequence: number, keep: number): boolean {
    this.#assertIdle();
    this.#assertSequence(sequence);
    assert(Number.isInteger(keep) && keep > 0 && keep <= this.slotTokens, 'tokens to keep');
    return this.#native.removeTokenCellsFromSequence(sequence, keep, -1);
  }

  clear(sequence: number): void {
    this.#assertIdle();
    this.#assertSequence(sequence);
    this.#native.disposeSequence(sequence);
  }

  async dispose(): Promise<void> {
    if (this.#disposed) return;
    this.#assertIdle();
    this.#disposed = true;
    await this.#native.dispose();
  }

  /** Runs an operation during which the context must not be used. */
  async #alone<T>(operation: () => Promise<T>): Promise<T> {
    this.#decoding = true;
    try {
      return await operation();
    } finally {
      this.#decoding = false;
    }
  }

  #assertIdle(): void {
    assert(!this.#disposed, 'the context is disposed');
    assert(!this.#decoding && this.#sampling === 0, 'the context is in use');
  }

  #assertReadable(index: number): void {
    assert(!this.#disposed, 'the context is disposed');
    assert(!this.#decoding, 'the context is decoding');
    assert(this.#logits[index] === 1, 'logits that were not requested');
  }

  /** The addon interprets -1 as all sequences, and crashes for IDs out of range. */
  #assertSequence(sequence: number): void {
    assert(Number.isInteger(sequence) && sequence >= 0 && sequence < this.slots, 'sequence id');
  }
}

/** Computes the embeddings of one input at a time. The addon can only read the embedding of one sequence per batch. */
export class NativeEmbeddingContext {
  /** Bytes that llama.cpp allocated for KV cache and compute buffers, in all memories. */
  readonly allocatedBytes: number;
  readonly #native: AddonContext;
  /** For inputs of fewer than `SHORT_INPUT` tokens; null if the model has no longer ones. */
  readonly #short: AddonContext | null;
  readonly #inputTokens: number;
  readonly #batchTokens: number;
  #computing = false;
  #disposed = false;

  constructor(
    native: AddonContext,
    short: AddonContext | null,
    sizes: { inputTokens: number; batchTokens: number },
  ) {
    this.#native = native;
    this.#short = short;
    // Not the size of the context, which llama.cpp rounds up: models have positions for exactly so many tokens.
    this.#inputTokens = sizes.inputTokens;
    this.#batchTokens = sizes.batchTokens;
    this.allocatedBytes = 0;
    for (const context of [native, short]) {
      const { cpuRam, gpuVram } = context?.getMemoryBreakdown() ?? { cpuRam: 0, gpuVram: 0 };
      this.allocatedBytes += cpuRam + gpuVram;
    }
  }

  /**
   * Returns the embedding of an input as the model's file pools it. All tokens must exist. `onBatch` is called after each
   * batch, and may throw to stop.
   */
  async embed(tokens: Uint32Array, threads: number, onBatch: () => void): Promise<Float64Array> {
    assert(!this.#disposed, 'the context is disposed');
    assert(!this.#computing, 'the context is in use');
    // llama.cpp ends the process for positions that the model does not have.
    assert(tokens.length > 0 && tokens.length <= this.#inputTokens, 'input length');
    assert(Number.isInteger(threads) && threads > 0, 'threads');
    this.#computing = true;
    const native = tokens.length < SHORT_INPUT ? (this.#short ?? this.#native) : this.#native;
    try {
      native.setThreads(threads);
      for (let from = 0; from < tokens.length; from += this.#batchTokens) {
        const batch = tokens.subarray(from, from + this.#batchTokens);
        native.initBatch(batch.length);
        native.addToBatch(0, from, batch, Uint32Array.of(batch.length - 1));
        await native.decodeBatch();
        onBatch();
      }
      return native.getEmbedding(tokens.length);
    } finally {
      native.disposeSequence(0);
      this.#computing = false;
    }
  }

  async dispose(): Promise<void> {
    if (this.#disposed) return;
    assert(!this.#computing, 'the context is in use');
    this.#disposed = true;
    await this.#short?.dispose();
    await this.#native.dispose();
  }
}
