import { basename, dirname, join } from 'node:path';
import { RECOMMENDED_LIST, type RecommendedSampling } from '../core/sampling.ts';
import { FILE_TYPES, scanGguf, type GgufScan, type GgufValue } from './gguf-file.ts';
import { splitFiles } from './layout.ts';
import { ModelFileError } from './errors.ts';

/** Metadata of a model, from its GGUF file or all files of a split model. */
export interface GgufInfo {
  /** The path passed to `readGguf`. For a split model, its first file. */
  path: string;
  /** `general.architecture`, such as `llama`. */
  architecture: string;
  /** `general.license`, usually an SPDX identifier. */
  license: string | null;
  /** Context length that the model was trained with. */
  contextTokens: number;
  /** Jinja source in `tokenizer.chat_template`; null for base models. */
  chatTemplate: string | null;
  /** Such as `Llama3` or `Qwen`. */
  tokenizerFamily: string;
  /** llama.cpp's name of the rules that split a text before it is tokenized; null: the default. */
  preTokenizer: string | null;
  /** Text of the beginning-of-sequence token. */
  bosToken: string | null;
  /** Text of the end-of-sequence token. */
  eosToken: string | null;
  /** Whether a separator comes between two texts, after the end of the first. If null, the default of the tokenizer applies. */
  addSeparator: boolean | null;
  /** The prompt of a model that ranks texts, with `{query}` and `{document}`; null: they only have a separator. */
  rerankTemplate: string | null;
  /** Name of the file type, such as `Q4_1`. If it is unknown, the most common type of the weights. */
  quantization: string;
  /** Bytes of KV cache per token in F16, for all layers with attention. Layers with a sliding window count in full. */
  kvBytesPerToken: number;
  /** Number of the latest tokens that some layers see; null if all layers see all tokens. */
  slidingWindow: number | null;
  /** Bytes of the state that recurrent layers keep per slot, in F32; 0 if the model has no such layers. */
  stateBytesPerSlot: number;
  /** Number of tokens in the vocabulary; null if unknown. */
  vocabularySize: number | null;
  /** Dimension of an embedding; null if unknown. */
  embeddingLength: number | null;
  /** How the model computes embeddings or scores; null for models that generate text. */
  embedding: EmbeddingInfo | null;
  /** From `general.sampling.*`; null if the file recommends nothing. */
  sampling: RecommendedSampling | null;
  layerCount: number;
  /** Paths of all files, in order. They are absolute if `path` is absolute. */
  files: readonly string[];
  /** Total size of all files. */
  sizeBytes: number;
}

export interface EmbeddingInfo {
  /** How the vectors of an input's tokens become one. With `none`, they do not; with `rank`, they become the score of a text. */
  pooling: Pooling;
  /** Whether tokens cannot see later ones, as in models that generate text. Only then is there a KV cache. */
  causal: boolean;
}

/** llama.cpp's names, in the order of its numbers. */
const POOLINGS = ['none', 'mean', 'cls', 'last', 'rank'] as const;
type Pooling = (typeof POOLINGS)[number];

/** Prefixes of architectures in which tokens see later ones. */
const BIDIRECTIONAL = /^(bert|nomic-bert|jina-bert|neo-bert|modern-bert|eurobert|gemma-embedding)/;

/**
 * Reads the metadata of a model and checks its structure, without reading the weights. For a split model, `path` is the
 * first file, and the others must be in the same folder.
 * @throws ModelFileError `missing`, `not_a_gguf`, `unsupported`, `truncated` or `damaged`
 */
export async function readGguf(path: string): Promise<GgufInfo> {
  const first = await scanGguf(path);
  const metadata = new MetadataReader(path, first.metadata);
  const files = fileNames(path, metadata);
  const scans = [first];
  for (const file of files.slice(1)) scans.push(await scanGguf(file));

  const architecture = metadata.requiredText('general.architecture');
  const fileType = metadata.number('general.file_type');
  const preTokenizer = metadata.text('tokenizer.ggml.pre');
  return {
    path,
    architecture,
    license: metadata.text('general.license'),
    contextTokens: metadata.requiredNumber(`${architecture}.context_length`),
    chatTemplate: metadata.text('tokenizer.chat_template'),
    tokenizerFamily: tokenizerFamily(metadata.text('tokenizer.ggml.model'), preTokenizer, architecture),
    preTokenizer,
    bosToken: first.tokenTexts.get('tokenizer.ggml.bos_token_id') ?? null,
    eosToken: first.tokenTexts.get('tokenizer.ggml.eos_token_id') ?? null,
    addSeparator: metadata.flag('tokenizer.ggml.add_sep_token'),
    rerankTemplate: metadata.text('tokenizer.chat_template.rerank'),
    quantization: (fileType === null ? undefined : FILE_TYPES.get(fileType)) ?? mostCommonType(scans),
    ...cacheBytes(metadata, architecture),
    slidingWindow: metadata.number(`${architecture}.attention.sliding_window`) || null,
    vocabularySize: first.vocabularySize ?? metadata.number(`${architecture}.vocab_size`),
    embeddingLength: metadata.number(`${architecture}.embedding_length`),
    embedding: embeddingOf(
      metadata,
      architecture,
      scans.some(({ hasClassifier }) => hasClassifier),
    ),
    sampling: samplingOf(metadata),
    layerCount: metadata.number(`${architecture}.block_count`) ?? 0,
    files,
    sizeBytes: scans.reduce((sum, scan) => sum + scan.sizeBytes, 0),
  };
}

function fileNames(path: string, metadata: MetadataReader): readonly string[] {
  const count = metadata.number('split.count') ?? 1;
  if (count <= 1) return [path];
  const names = splitFiles(basename(path));
  const number = (metadata.number('split.no') ?? 0) + 1;
  if (number !== 1) {
    throw new ModelFileError(
      'unsupported',
      path,
      `part ${number} of ${count} of a split model; expected the first part`,
    );
  }
  if (names.length !== count || names[0] !== basename(path)) {
    throw new ModelFileError(
      'unsupported',
      path,
      `the first of ${count} parts; expected its name to end in "-00001-of-${String(count).padStart(5, '0')}.gguf"`,
    );
  }
  return names.map((name) =>
    dirname(path) === '.' && !path.startsWith('.') ? name : join(dirname(path), name),
  );
}

/**
 * Returns the memory that llama.cpp allocates for the context. It is an upper bound for models whose layers share keys
 * and values, or that compress them.
 */
function cacheBytes(
  metadata: MetadataReader,
  architecture: string,
): Pick<GgufInfo, 'kvBytesPerToken' | 'stateBytesPerSlot'> {
  if (BIDIRECTIONAL.test(architecture)) return { kvBytesPerToken: 0, stateBytesPerSlot: 0 };
  const layers = metadata.number(`${architecture}.block_count`) ?? 0;
  const heads = metadata.numbers(`${architecture}.attention.head_count`) ?? [0];
  const kvHeads = metadata.numbers(`${architecture}.attention.head_count_kv`) ?? heads;
  const embedding = metadata.number(`${architecture}.embedding_length`) ?? 0;
  const maxHeads = Math.max(1, ...heads);
  const keyLength = metadata.number(`${architecture}.attention.key_length`) ?? embedding / maxHeads;
  const valueLength = metadata.number(`${architecture}.attention.value_length`) ?? embedding / maxHeads;
  // In some models, every nth layer has attention and the others are recurrent.
  const interval = metadata.number(`${architecture}.full_attention_interval`) ?? 1;
  let attentionHeads: number;
  let recurrentLayers: number;
  if (kvHeads.length === 1) {
    // A single number applies to all layers. Not counted one by one: a damaged file may claim billions of layers.
    const [layerHeads = 0] = kvHeads;
    const fullLayers = Math.floor(layers / Math.max(1, interval));
    attentionHeads = fullLayers * layerHeads;
    // With the same number of heads in all layers, each layer has both attention and a state, if the model has one.
    recurrentLayers = layerHeads === 0 || fullLayers === layers ? layers : layers - fullLayers;
  } else {
    // A list with one number per layer may be longer than the number of layers.
    const listed = kvHeads.slice(0, layers).filter((_, layer) => (layer + 1) % interval === 0);
    attentionHeads = listed.reduce((sum, heads) => sum + heads, 0);
    recurrentLayers = layers - listed.filter((heads) => heads > 0).length;
  }
  return {
    kvBytesPerToken: Math.ceil(attentionHeads * (keyLength + valueLength) * 2),
    stateBytesPerSlot: recurrentLayers * stateLength(metadata, architecture, embedding, maxHeads) * 4,
  };
}

/** Returns how many numbers a recurrent layer keeps per slot; 0 if the model has no such layers. */
function stateLength(
  metadata: MetadataReader,
  architecture: string,
  embedding: number,
  heads: number,
): number {
  const number = (key: string): number => metadata.number(`${architecture}.${key}`) ?? 0;
  const wkvHeadLength = number('wkv.head_size');
  if (wkvHeadLength > 0) return embedding * ((number('token_shift_count') || 2) + wkvHeadLength); // RWKV
  const shortConvolution = number('shortconv.l_cache');
  if (shortConvolution > 0) return embedding * (shortConvolution - 1); // LFM2
  const convolution = Math.max(0, number('ssm.conv_kernel') - 1);
  const kdaHeadLength = number('kda.head_dim');
  if (kdaHeadLength > 0) return heads * kdaHeadLength * (3 * convolution + kdaHeadLength); // Kimi Linear
  const inner = number('ssm.inner_size');
  const state = number('ssm.state_size');
  return convolution * (inner + 2 * number('ssm.group_count') * state) + inner * state; // Mamba and gated delta nets
}

/** Models that generate text can also have a pooling of `none`. Many files of models that rank texts have no pooling. */
function embeddingOf(
  metadata: MetadataReader,
  architecture: string,
  hasClassifier: boolean,
): EmbeddingInfo | null {
  const causal = !BIDIRECTIONAL.test(architecture);
  const fallback = hasClassifier && !causal ? 'rank' : 'none';
  const number = metadata.number(`${architecture}.pooling_type`);
  const pooling = number === null ? fallback : (POOLINGS[number] ?? 'none');
  return pooling === 'none' && causal ? null : { pooling, causal };
}

function samplingOf(metadata: MetadataReader): RecommendedSampling | null {
  const found = RECOMMENDED_LIST.flatMap(([id, { gguf, ggufNone, schema }]) => {
    const value = metadata.number(`general.sampling.${gguf}`);
    const { type, minimum = -Infinity, maximum, exclusiveMinimum } = schema;
    if (value === null || value === ggufNone || value < minimum || value > maximum) return [];
    if (exclusiveMinimum !== undefined && value <= exclusiveMinimum) return [];
    if (type === 'integer' && !Number.isInteger(value)) return [];
    // The file has 32-bit floats, so 0.6 is read as 0.6000000238418579.
    return [[id, Number(value.toPrecision(6))] as const];
  });
  return found.length === 0 ? null : Object.fromEntries(found);
}

function mostCommonType(scans: readonly GgufScan[]): string {
  const totals = new Map<string, number>();
  for (const scan of scans) {
    for (const [name, elements] of scan.elementsByType) totals.set(name, (totals.get(name) ?? 0) + elements);
  }
  const [first] = [...totals].sort((a, b) => b[1] - a[1]);
  return first?.[0] ?? 'unknown';
}

/** Typed access to metadata. A value of another type is treated as missing. */
class MetadataReader {
  readonly #path: string;
  readonly #metadata: ReadonlyMap<string, GgufValue>;

  constructor(path: string, metadata: ReadonlyMap<string, GgufValue>) {
    this.#path = path;
    this.#metadata = metadata;
  }

  text(key: string): string | null {
    const value = this.#metadata.get(key);
    return typeof value === 'string' ? value : null;
  }

  number(key: string): number | null {
    const value = this.#metadata.get(key);
    return typeof value === 'number' && Number.isFinite(value) ? value : null;
  }

  flag(key: string): boolean | null {
    const value = this.number(key);
    return value === null ? null : value !== 0;
  }

  /** Returns a list with one number for all layers, or one number per layer. */
  numbers(key: string): readonly number[] | null {
    const value = this.#metadata.get(key);
    if (typeof value === 'number') return [value];
    return value === undefined || typeof value === 'string' || value.length === 0 ? null : value;
  }

  requiredText(key: string): string {
    return this.text(key) ?? this.#throwMissing(key);
  }

  requiredNumber(key: string): number {
    return this.number(key) ?? this.#throwMissing(key);
  }

  #throwMissing(key: string): never {
    throw new ModelFileError(
      'unsupported',
      this.#path,
      `not a text generation model: its metadata has no "${key}"`,
    );
  }
}

/**
 * Tokenizer families by the pre-tokenizer in `tokenizer.ggml.pre`, which distinguishes even families with the same
 * encoder. The names follow public model lists.
 */
const BY_PRE: readonly (readonly [pre: RegExp, family: string])[] = [
  [/^(llama-bpe|llama-v3|llama3|falcon3)$/, 'Llama3'],
  [/^llama4$/, 'Llama4'],
  [/^(qwen35|qwen3)/, 'Qwen3'],
  [/^(qwen2|deepseek-r1-qwen)$/, 'Qwen'],
  [/^deepseek/, 'DeepSeek'],
  [/^(tekken|mistral)/, 'Mistral'],
  [/^(gpt-4o|o200k)/, 'GPT'],
  [/^(gpt-2|gpt2)$/, 'GPT2'],
  [/^smollm/, 'SmolLM'],
  [/^(command-r|tiny_aya|cohere)/, 'Cohere'],
  [/^(glm4|chatglm)/, 'GLM'],
  [/^falcon$/, 'Falcon'],
  [/^(gemma4|gemma)/, 'Gemma'],
];

/** Tokenizer families by architecture prefix, for files whose pre-tokenizer does not identify the family. */
const BY_ARCHITECTURE: readonly (readonly [architecture: string, family: string])[] = [
  ['gemma', 'Gemma'],
  ['qwen3', 'Qwen3'],
  ['qwen', 'Qwen'],
  ['mistral', 'Mistral'],
  ['phi3', 'Llama2'],
  ['rwkv', 'RWKV'],
];

const BY_MODEL: ReadonlyMap<string, string> = new Map([
  ['llama', 'Llama2'],
  ['gpt2', 'GPT2'],
  ['bert', 'BERT'],
  ['t5', 'T5'],
  ['rwkv', 'RWKV'],
  ['gemma4', 'Gemma'],
]);

/**
 * Returns the tokenizer family for `GET /v1/models`, from `tokenizer.ggml.model`, `tokenizer.ggml.pre` and the
 * architecture. For an unknown family, returns `pre`, or else `model`.
 */
export function tokenizerFamily(model: string | null, pre: string | null, architecture: string): string {
  const byPre = pre === null ? undefined : BY_PRE.find(([pattern]) => pattern.test(pre))?.[1];
  // Qwen3 has the pre-tokenizer of Qwen2.
  if (byPre === 'Qwen' && architecture.startsWith('qwen3')) return 'Qwen3';
  if (byPre !== undefined) return byPre;
  const byArchitecture = BY_ARCHITECTURE.find(([prefix]) => architecture.startsWith(prefix))?.[1];
  if (byArchitecture !== undefined) return byArchitecture;
  if (pre !== null && pre !== '' && pre !== 'default') return pre;
  return (model === null ? undefined : BY_MODEL.get(model)) ?? model ?? 'unknown';
}
