import assert from 'node:assert/strict';
import type { Addon, AddonCheckpoint, AddonContext } from './addon.ts';
import { MAX_CHECKPOINTS, SHORT_INPUT } from '../../../models/memory.ts';
import { ThreadCount } from './thread-count.ts';
import { NativeSampler } from './sampler.ts';

/** `logits` alternates tokens and their logits. `totalWeight` is the sum of exp(logit - max). */
export interface NativeReading {
  likeliest: number;
  logits: readonly number[];
  totalWeight: number;
}

const NO_LOGITS = new Uint32Array(0);

const FIRST_TOKEN = new Uint32Array([0]);

/** What a sequence of a model whose sequences cannot be trimmed needs to return to its first `tokens` tokens. */
export interface Checkpoint {
  readonly tokens: number;
  readonly native: AddonCheckpoint;
}

/** Sequences with their KV cache. Must not be used while `decode()` is pending. */
export class NativeContext {
  readonly slots: number;
  /** Maximum tokens of each sequence. It can be larger than requested, because llama.cpp rounds up. */
  readonly slotTokens: number;
  readonly batchTokens: number;
  /** Of each sequence, for which there is memory. */
  readonly maxCheckpoints = MAX_CHECKPOINTS;
  /** Bytes that llama.cpp allocated for KV cache, recurrent state and compute buffers, in all memories. */
  readonly allocatedBytes: number;
  readonly #native: AddonContext;
  readonly #Checkpoint: Addon['AddonContextSequenceCheckpoint'];
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

  constructor(
    native: AddonContext,
    Checkpoint: Addon['AddonContextSequenceCheckpoint'],
    { slots, batchTokens }: { slots: number; batchTokens: number },
    threads: ThreadCount | null,
  ) {
    this.#native = native;
    this.#Checkpoint = Checkpoint;
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

  /** Keeps the state of a sequence, which has `tokens` tokens. Dispose of it with `native.dispose`. */
  async checkpoint(sequence: number, tokens: number): Promise<Checkpoint> {
    this.#assertIdle();
    assert(this.canStore(sequence), 'the sequence is being copied');
    const native = new this.#Checkpoint();
    await this.#alone(() => native.init(this.#native, sequence));
    return { tokens, native };
  }

  /** Returns a sequence to its own checkpoint, also instead of `trim`. Returns false if it cannot; then call `clear`. */
  async restore(sequence: number, { tokens, native }: Checkpoint): Promise<boolean> {
    this.#assertIdle();
    this.#assertSequence(sequence);
    return await this.#alone(() => this.#native.restoreCheckpoint(native, tokens - 1, sequence));
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
