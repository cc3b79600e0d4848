/** The part of the native addon's types (version 3.22.1) that the engine uses. */

export interface Addon {
  AddonModel: new (
    file: string,
    options: {
      addonExports: Addon;
      gpuLayers: number;
      useMmap: boolean;
      onLoadProgress(fraction: number): void;
    },
  ) => AddonModel;
  AddonContext: new (model: AddonModel, options: AddonContextOptions) => AddonContext;
  AddonSampler: {
    new (model: AddonModel): AddonSampler;
    canBeNextTokenForGrammarEvaluationState(state: AddonGrammarState, token: number): boolean;
    /** The grammar must allow the token. Otherwise, llama.cpp ends the process. */
    acceptGrammarEvaluationStateToken(state: AddonGrammarState, token: number): void;
  };
  AddonGrammar: new (gbnf: string, options: { addonExports: Addon }) => AddonGrammar;
  AddonGrammarEvaluationState: {
    new (model: AddonModel, grammar: AddonGrammar): AddonGrammarState;
    /** Copies a state. */
    new (existing: AddonGrammarState): AddonGrammarState;
  };
  AddonContextSequenceCheckpoint: new () => AddonCheckpoint;
  markLoaded(): boolean;
  setLogger(logger: (level: number, message: string) => void): void;
  setLoggerLogLevel(level: number): void;
  loadBackends(folder?: string): void;
  getGpuType(): 'cuda' | 'vulkan' | 'metal' | false | undefined;
  ensureGpuDeviceIsSupported(): void;
  /** Without names if no GPU was found. */
  getGpuDeviceInfo(): { deviceNames: string[] };
  getGpuVramInfo(): { total: number; used: number };
  /** Physical cores, without efficiency cores. */
  getMathCores(): number;
  init(): Promise<void>;
}

export interface AddonContextOptions {
  contextSize: number;
  batchSize: number;
  sequences: number;
  flashAttention: boolean | 'auto';
  threads: number;
  /** Whether layers with a sliding window keep all tokens of a sequence. */
  swaFullCache: boolean;
  /** Types of the cached keys and values, as GGUF numbers them. Default: F16. */
  kvCacheKeyType?: number;
  kvCacheValueType?: number;
  /** Whether embeddings can be read. Default: false. */
  embeddings?: boolean;
  /** Whether an embedding is the output of the model's classifier, whatever its file says. Default: false. */
  ranking?: boolean;
}

export interface AddonModel {
  init(): Promise<boolean>;
  dispose(): Promise<void>;
  tokenize(text: string, specialTokens: boolean): Uint32Array;
  detokenize(tokens: Uint32Array, specialTokens: boolean): string;
  tokenBos(): number;
  tokenEos(): number;
  getTokenString(token: number): string;
  getTokenAttributes(token: number): number;
  isEogToken(token: number): boolean;
  getVocabularyType(): number;
  sepToken(): number | undefined;
  shouldPrependBosToken(): boolean;
  shouldAppendEosToken(): boolean;
  getEmbeddingVectorSize(): number;
}

export interface AddonContext {
  init(): Promise<boolean>;
  dispose(): Promise<void>;
  getContextSize(): number;
  /** Bytes of KV cache, recurrent state and compute buffers. */
  getMemoryBreakdown(): { cpuRam: number; gpuVram: number };
  initBatch(size: number): void;
  addToBatch(sequence: number, position: number, tokens: Uint32Array, logitIndexes: Uint32Array): Uint32Array;
  decodeBatch(): Promise<void>;
  sampleToken(logitIndex: number, sampler: AddonSampler): Promise<number>;
  sampleToken(
    logitIndex: number,
    sampler: AddonSampler,
    probabilities: boolean,
    confidence: boolean,
    logits:
      | boolean
      | [
          tokens: readonly number[],
          includeMax: boolean,
          includeMin: boolean,
          includeSelected: boolean,
          includeTop: number,
        ],
    totalLogitWeight: boolean,
  ): Promise<AddonSample>;
  /** The embedding of sequence 0 in the last batch, pooled as the model's file says. `tokens` is only used in errors. */
  getEmbedding(tokens: number): Float64Array;
  setThreads(threads: number): void;
  disposeSequence(sequence: number): void;
  removeTokenCellsFromSequence(sequence: number, start: number, end: number): boolean;
  copySequenceStateFromOtherSequence(target: number, source: number): Promise<number>;
  /** Returns the bytes of the file. Rejects if it cannot be written as a whole. */
  saveSequenceStateToFile(file: string, sequence: number, tokens: Uint32Array): Promise<number>;
  /** Returns the tokens that were saved with the state. Rejects if they are more than `maxTokens`. */
  loadSequenceStateFromFile(file: string, sequence: number, maxTokens: number): Promise<Uint32Array>;
  /** Returns a sequence to its checkpoint, when its last token had this position. Returns whether it did. */
  restoreCheckpoint(checkpoint: AddonCheckpoint, lastPosition: number, sequence: number): Promise<boolean>;
}

/** The state of a sequence that later tokens overwrite, in memory of the host. */
export interface AddonCheckpoint {
  /** Copies the current state of a sequence. */
  init(context: AddonContext, sequence: number): Promise<void>;
  dispose(): void;
}

/** `logits` alternates tokens and their logits. */
type AddonSample = [
  token: number,
  probabilities: number[] | undefined,
  confidence: number | undefined,
  logits: number[] | undefined,
  totalLogitWeight: number | undefined,
];

export type AddonGrammarState = object;
type AddonGrammar = object;

export interface AddonSampler {
  applyConfig(config: SamplerConfig & { grammarEvaluationState?: AddonGrammarState }): void;
  dispose(): void;
}

/**
 * Sampling settings. Leave out unset keys: the addon throws for the value `undefined`. The addon first applies bias and
 * penalties. With temperature 0 it then takes the most likely token; otherwise it applies topK, topP, minP and
 * temperature, in this order.
 */
export interface SamplerConfig {
  temperature: number;
  topK?: number;
  topP?: number;
  minP?: number;
  seed: number;
  repeatPenalty?: number;
  repeatPenaltyMaxTokens?: number;
  repeatPenaltyTokens?: Uint32Array;
  repeatPenaltyPresencePenalty?: number;
  repeatPenaltyFrequencyPenalty?: number;
  tokenBiasKeys?: Uint32Array;
  tokenBiasValues?: Float32Array;
}
