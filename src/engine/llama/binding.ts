import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ModelFileError } from '../../models/model-file-error.ts';
import type { AddonContext, AddonGrammarState, AddonModel, AddonSampler, SamplerConfig } from './addon.ts';
import type { Backend } from './backend.ts';
import { NativeGarbage } from './native-garbage.ts';

/**
 * The one module that calls the native addon. It turns each of the addon's traps (a crash, a silent wrong
 * answer) into an assertion: sequence ids out of range, positions past a slot, the context touched during a
 * decode, logits that were not asked for, use after disposal. `test/model/engine-binding.test.ts` holds it.
 */

/** A loaded model file. Disposed after every context of it. */
export class NativeModel {
  readonly #backend: Backend;
  readonly #native: AddonModel;
  readonly #garbage = new NativeGarbage();
  #disposed = false;

  private constructor(backend: Backend, native: AddonModel) {
    this.#backend = backend;
    this.#native = native;
  }

  /** Loads `file`. `onProgress` gets fractions, 0 to 1, in order. Rejects with a `ModelFileError` in llama.cpp's own words. */
  static async load(
    backend: Backend,
    file: string,
    options: { gpuLayers: number; onProgress(fraction: number): void; signal?: AbortSignal | undefined },
  ): Promise<NativeModel> {
    const native = new backend.addon.AddonModel(file, {
      addonExports: backend.addon,
      gpuLayers: options.gpuLayers,
      useMmap: true,
      hasLoadAbortSignal: true,
      onLoadProgress: (fraction) => options.onProgress(fraction),
    });
    const abort = (): void => native.abortActiveModelLoad();
    options.signal?.throwIfAborted();
    options.signal?.addEventListener('abort', abort, { once: true });
    backend.errors.length = 0;
    try {
      const loaded = await native.init();
      // What llama.cpp's thread has said meanwhile, progress and log, arrives with the next turn.
      await nextTurn();
      options.signal?.throwIfAborted();
      // Going on with a model whose `init` answered false is a segmentation fault.
      if (!loaded) throw refused(backend, file);
      return new NativeModel(backend, native);
    } finally {
      options.signal?.removeEventListener('abort', abort);
    }
  }

  /** Tokens of `text`; with `special`, the text of a control token becomes that token. Adds no BOS. Synchronous: about 1 ms a kilobyte. */
  tokenize(text: string, special: boolean): Uint32Array {
    return this.#live().tokenize(text, special);
  }

  /** The tokens' text as llama.cpp sees it; with `special`, control tokens show. */
  detokenize(tokens: Uint32Array, special: boolean): string {
    return this.#live().detokenize(tokens, special);
  }

  /** What the vocabulary says of a token: its stored text, its attribute bits, whether it ends a text. `token` must be in it. */
  token(token: number): { text: string; attributes: number; ends: boolean } {
    const native = this.#live();
    return {
      text: native.getTokenString(token),
      attributes: native.getTokenAttributes(token),
      ends: native.isEogToken(token),
    };
  }

  /** llama.cpp's number of the tokenizer's kind. */
  get vocabularyType(): number {
    return this.#live().getVocabularyType();
  }

  /** The tokens that begin and end a text; null: it has none. */
  get bosToken(): number | null {
    return existing(this.#live().tokenBos());
  }

  get eosToken(): number | null {
    return existing(this.#live().tokenEos());
  }

  /** Whether every prompt is to begin with the begin token, whatever a chat template says. */
  get addsBos(): boolean {
    return this.#live().shouldPrependBosToken();
  }

  get trainContextTokens(): number {
    return this.#live().getTrainContextSize();
  }

  /**
   * A grammar in progress, from GBNF; null where the GBNF does not parse. Synchronous. Each request needs a
   * copy of its own (`copyGrammar`).
   */
  grammar(gbnf: string): NativeGrammar | null {
    const { addon } = this.#backend;
    let parsed;
    try {
      parsed = new addon.AddonGrammar(gbnf, { addonExports: addon });
    } catch {
      return null; // The one thing that the constructor throws for.
    }
    return { state: new addon.AddonGrammarEvaluationState(this.#live(), parsed) };
  }

  copyGrammar(grammar: NativeGrammar): NativeGrammar {
    return { state: new this.#backend.addon.AddonGrammarEvaluationState(grammar.state) };
  }

  /** A sampler for one choice of one request, used by one `sample` at a time. It keeps penalties, grammar and its generator from token to token. */
  sampler(config: SamplerConfig, grammar: NativeGrammar | null = null): NativeSampler {
    const native = new this.#backend.addon.AddonSampler(this.#live());
    native.applyConfig(grammar === null ? config : { ...config, grammarEvaluationState: grammar.state });
    return new NativeSampler(native, this.#garbage);
  }

  /** Room for `slots` sequences of `slotTokens` each, or a little more: see `NativeContext.slotTokens`. */
  async context(options: {
    slots: number;
    slotTokens: number;
    batchTokens: number;
    threads: number;
  }): Promise<NativeContext> {
    const native = new this.#backend.addon.AddonContext(this.#live(), {
      contextSize: options.slotTokens * options.slots,
      batchSize: options.batchTokens,
      sequences: options.slots,
      flashAttention: 'auto',
      threads: options.threads,
    });
    if (!(await native.init()))
      throw new Error(this.#backend.errors.at(-1) ?? 'not enough memory for the context');
    return new NativeContext(native, options.slots, options.batchTokens);
  }

  async dispose(): Promise<void> {
    if (this.#disposed) return;
    this.#disposed = true;
    await this.#native.dispose();
  }

  #live(): AddonModel {
    assert(!this.#disposed, 'the model is disposed');
    return this.#native;
  }
}

/** Why a load failed: of what llama.cpp logs then, the first line says most. */
function refused(backend: Backend, file: string): ModelFileError {
  const [reason = 'no reason reported'] = backend.errors;
  return new ModelFileError('unsupported', file, `llama.cpp cannot load the file: ${reason}`);
}

function existing(token: number): number | null {
  return token >= 0 ? token : null;
}

/** A parsed grammar and how far a text has come in it. */
export interface NativeGrammar {
  readonly state: AddonGrammarState;
}

export class NativeSampler {
  readonly #native: AddonSampler;
  readonly #garbage: NativeGarbage;
  #disposed = false;

  constructor(native: AddonSampler, garbage: NativeGarbage) {
    this.#native = native;
    this.#garbage = garbage;
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
    this.#garbage.add();
  }
}

/** What was read beside a sample: pairs of token and logit, the likeliest token, and the sum of exp(logit - max). */
export interface NativeReading {
  likeliest: number;
  logits: readonly number[];
  totalWeight: number;
}

const NO_LOGITS = new Uint32Array(0);
const FIRST = new Uint32Array([0]);

/** Sequences and their keys and values. Nothing may touch it between `decode()` and its settling. */
export class NativeContext {
  readonly slots: number;
  /** Positions of each sequence: llama.cpp rounds up what was asked for. */
  readonly slotTokens: number;
  readonly batchTokens: number;
  readonly #native: AddonContext;
  /** Which batch positions have logits, since the last decode. */
  readonly #logits: Uint8Array;
  #added = 0;
  #batch = 0;
  #decoding = false;
  #sampling = 0;
  #disposed = false;

  constructor(native: AddonContext, slots: number, batchTokens: number) {
    this.#native = native;
    this.slots = slots;
    this.slotTokens = Math.floor(native.getContextSize() / slots);
    this.batchTokens = batchTokens;
    this.#logits = new Uint8Array(batchTokens);
  }

  /** Begins a batch of exactly `tokens`, at most `batchTokens`. */
  begin(tokens: number): void {
    this.#free();
    assert(tokens > 0 && tokens <= this.batchTokens, 'batch size');
    this.#native.initBatch(tokens);
    this.#logits.fill(0);
    this.#batch = tokens;
    this.#added = 0;
  }

  /** Adds a sequence's next tokens, the first at `position`. Returns the index to sample the last one's logits with, or -1 where they were not wanted. */
  add(sequence: number, position: number, tokens: Uint32Array, wantLogits: boolean): number {
    this.#free();
    this.#check(sequence);
    // llama.cpp would fail the whole batch, every other request in it too.
    assert(position >= 0 && position + tokens.length <= this.slotTokens, 'position past the slot');
    assert(tokens.length > 0 && this.#added + tokens.length <= this.#batch, 'more tokens than the batch has');
    this.#added += tokens.length;
    if (!wantLogits) {
      this.#native.addToBatch(sequence, position, tokens, NO_LOGITS);
      return -1;
    }
    const wanted = tokens.length === 1 ? FIRST : Uint32Array.of(tokens.length - 1);
    const index = this.#native.addToBatch(sequence, position, tokens, wanted)[0];
    assert(index !== undefined && index < this.#batch, 'logit index');
    this.#logits[index] = 1;
    return index;
  }

  /** Computes the batch. A rejection leaves every sequence of it in an unknown state: `clear` them. */
  async decode(): Promise<void> {
    this.#free();
    assert(this.#added === this.#batch && this.#batch > 0, 'the batch is not full');
    this.#decoding = true;
    this.#batch = 0;
    try {
      await this.#native.decodeBatch();
    } finally {
      this.#decoding = false;
    }
  }

  /** The next token at a logit index of the last decode. The sampler takes note of it, so a sequence's positions go in order. */
  async sample(index: number, sampler: NativeSampler): Promise<number> {
    this.#readable(index);
    this.#sampling++;
    try {
      const token = await this.#native.sampleToken(index, sampler.native);
      if (token < 0) throw new Error('no token could be sampled');
      return token;
    } finally {
      this.#sampling--;
    }
  }

  /**
   * Reads logits of `tokens`, of the sampler's own choice and of its `top` likeliest. Of a sampler that cuts
   * (topK), `totalWeight` counts what it kept.
   */
  async read(
    index: number,
    sampler: NativeSampler,
    tokens: readonly number[],
    top: number,
  ): Promise<NativeReading> {
    this.#readable(index);
    this.#sampling++;
    try {
      const selected = top === 0;
      const answer = await this.#native.sampleToken(
        index,
        sampler.native,
        false,
        false,
        [tokens, false, false, selected, top],
        true,
      );
      const [likeliest, , , logits, totalWeight] = answer;
      if (likeliest < 0 || logits === undefined || totalWeight === undefined)
        throw new Error('no logits could be read');
      return { likeliest, logits, totalWeight };
    } finally {
      this.#sampling--;
    }
  }

  /** A whole row of logits, by token: slow, and the one way to learn how many tokens the vocabulary has. */
  async logits(index: number, sampler: NativeSampler): Promise<Float32Array> {
    this.#readable(index);
    const [, , , pairs] = await this.#native.sampleToken(index, sampler.native, false, false, true, false);
    assert(pairs !== undefined && pairs.length > 0, 'no logits');
    const row = new Float32Array(pairs.length / 2);
    for (let i = 0; i + 1 < pairs.length; i += 2) row[pairs[i] as number] = pairs[i + 1] as number; // Pairs.
    return row;
  }

  /** Makes `target` hold what `source` holds. The bytes move in the next decode. */
  async copy(target: number, source: number): Promise<void> {
    this.#free();
    this.#check(target);
    this.#check(source);
    assert(target !== source, 'a sequence cannot be copied to itself');
    this.#decoding = true;
    try {
      await this.#native.copySequenceStateFromOtherSequence(target, source);
    } finally {
      this.#decoding = false;
    }
  }

  /** Forgets a sequence's positions from `keep` on. False where this model cannot (the sequence is then unchanged): `clear` it. */
  trim(sequence: number, keep: number): boolean {
    this.#free();
    this.#check(sequence);
    assert(Number.isInteger(keep) && keep > 0 && keep <= this.slotTokens, 'tokens to keep');
    return this.#native.removeTokenCellsFromSequence(sequence, keep, -1);
  }

  clear(sequence: number): void {
    this.#free();
    this.#check(sequence);
    this.#native.disposeSequence(sequence);
  }

  /** Only when nothing decodes or samples. */
  async dispose(): Promise<void> {
    if (this.#disposed) return;
    this.#free();
    this.#disposed = true;
    await this.#native.dispose();
  }

  #free(): void {
    assert(!this.#disposed, 'the context is disposed');
    assert(!this.#decoding && this.#sampling === 0, 'the context is in use');
  }

  #readable(index: number): void {
    assert(!this.#disposed, 'the context is disposed');
    assert(!this.#decoding, 'the context is decoding');
    assert(this.#logits[index] === 1, 'logits that were not asked for');
  }

  /** -1 would mean every sequence, and one out of range ends the process. */
  #check(sequence: number): void {
    assert(Number.isInteger(sequence) && sequence >= 0 && sequence < this.slots, 'sequence id');
  }
}
