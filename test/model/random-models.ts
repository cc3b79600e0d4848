import { writeFileSync } from 'node:fs';
import { buildGguf, f32Field, type GgufField, i32Array } from '../models/gguf-builder.ts';

/** Name and dimensions of each tensor. */
type Tensors = Record<string, readonly number[]>;

const CHAT_TEMPLATE =
  "{% for m in messages %}{{ '<end>' + m.role + ': ' + m.content }}{% endfor %}{{ '<end>assistant: ' }}";

/**
 * Small models of architectures that keep a state instead of the keys and values of every token, for which there is no
 * small real file. Their weights are random: what they generate is meaningless, but it depends on every earlier token.
 */
export const RANDOM_MODELS = {
  /** All layers are recurrent. */
  mamba: {
    metadata: {
      'tokenizer.chat_template': CHAT_TEMPLATE,
      'mamba.block_count': 2,
      'mamba.context_length': 4096,
      'mamba.embedding_length': 64,
      'mamba.feed_forward_length': 0,
      'mamba.attention.head_count': 0,
      'mamba.attention.layer_norm_rms_epsilon': f32Field(1e-5),
      'mamba.ssm.conv_kernel': 4,
      'mamba.ssm.inner_size': 128,
      'mamba.ssm.state_size': 16,
      'mamba.ssm.time_step_rank': 4,
    },
    tensors: {
      'token_embd.weight': [64, 257],
      'output_norm.weight': [64],
      ...layer(0, mambaLayer()),
      ...layer(1, mambaLayer()),
    },
  },
  /** The first layer is recurrent, the second has attention. */
  lfm2: {
    metadata: hybridMetadata(),
    tensors: hybridTensors(),
  },
  /** Like `lfm2`, but the attention has a sliding window. */
  'lfm2 with a sliding window': {
    metadata: { ...hybridMetadata(), 'lfm2.attention.sliding_window': 32 },
    tensors: hybridTensors(),
  },
} satisfies Record<string, { metadata: Record<string, GgufField>; tensors: Tensors }>;

const ATTENTION: Tensors = {
  'attn_norm.weight': [64],
  'attn_q.weight': [64, 64],
  'attn_k.weight': [64, 32],
  'attn_v.weight': [64, 32],
  'attn_output.weight': [64, 64],
  'attn_q_norm.weight': [16],
  'attn_k_norm.weight': [16],
  'ffn_norm.weight': [64],
  'ffn_gate.weight': [64, 128],
  'ffn_down.weight': [128, 64],
  'ffn_up.weight': [64, 128],
};

/** Small models that keep the keys and values of every token: with all of them, and with a sliding window. */
export const RANDOM_ATTENTION = {
  qwen3: { metadata: attentionMetadata(), tensors: attentionTensors() },
  gemma3: windowAttention(),
} satisfies Record<string, { metadata: Record<string, GgufField>; tensors: Tensors }>;

/** Small models that compute embeddings, in other ways than the real one of the tests. */
export const RANDOM_EMBEDDINGS = {
  /** Tokens see only earlier ones, and the last one stands for the input. */
  'qwen3 with last': causalEmbeddings(),
  'bert with cls': { metadata: { ...bertMetadata(), 'bert.pooling_type': 2 }, tensors: bertTensors() },
  /** Ranks texts. Its file does not say so, as many do not. */
  'bert with rank': {
    metadata: bertMetadata(),
    tensors: {
      ...bertTensors(),
      'cls.weight': [64, 64],
      'cls.bias': [64],
      'cls.output.weight': [64, 1],
      'cls.output.bias': [1],
    },
  },
  /** Ranks texts by the probability of "yes", as Qwen3-Reranker does. */
  'qwen3 with rank': causalRanker(),
  'bert without pooling': { metadata: bertMetadata(), tensors: bertTensors() },
} satisfies Record<string, { metadata: Record<string, GgufField>; tensors: Tensors }>;

const ALL_RANDOM = { ...RANDOM_MODELS, ...RANDOM_ATTENTION, ...RANDOM_EMBEDDINGS };

export type RandomModel = keyof typeof ALL_RANDOM;

/** Writes a model with a vocabulary of one token per byte. The weights are the same each time. */
export function writeRandomModel(name: RandomModel, file: string): void {
  const { metadata, tensors } = ALL_RANDOM[name];
  const random = randomNumbers(1);
  const parts = Object.entries(tensors).map(([tensor, dimensions]) => {
    const count = dimensions.reduce((product, size) => product * size, 1);
    // Keeps the values in about the same range in every layer.
    const scale = Math.sqrt(3 / (dimensions[0] ?? 1));
    const values = Float32Array.from({ length: count }, () => (2 * random() - 1) * scale);
    // Norms scale by about 1, and a state decays.
    if (tensor.includes('norm')) for (let i = 0; i < count; i++) values[i] = 1 + (values[i] ?? 0);
    if (tensor.endsWith('ssm_a')) for (let i = 0; i < count; i++) values[i] = -random();
    return { name: tensor, dimensions, type: 0, sizeBytes: 4 * count, data: new Uint8Array(values.buffer) };
  });
  const [architecture = name] = name.split(' ');
  const general = { 'general.architecture': architecture, 'general.file_type': 0 };
  writeFileSync(file, buildGguf({ metadata: { ...general, ...metadata, ...VOCABULARY }, tensors: parts }));
}

const VOCABULARY: Record<string, GgufField> = {
  'tokenizer.ggml.model': 'gpt2',
  'tokenizer.ggml.pre': 'gpt-2',
  'tokenizer.ggml.tokens': [...byteTokens(), '<end>'],
  // 1 is a normal token, 3 a control token.
  'tokenizer.ggml.token_type': i32Array([...Array.from({ length: 256 }, () => 1), 3]),
  // llama.cpp requires at least one.
  'tokenizer.ggml.merges': ['Ā ā'],
  'tokenizer.ggml.eos_token_id': 256,
};

/** GPT-2's names of the 256 bytes. */
function byteTokens(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    return String.fromCodePoint(printable ? byte : next++);
  });
}

function layer(index: number, tensors: Tensors): Tensors {
  return Object.fromEntries(Object.entries(tensors).map(([name, size]) => [`blk.${index}.${name}`, size]));
}

function mambaLayer(): Tensors {
  return {
    'attn_norm.weight': [64],
    'ssm_in.weight': [64, 256],
    'ssm_conv1d.weight': [4, 128],
    'ssm_conv1d.bias': [128],
    'ssm_x.weight': [128, 36],
    'ssm_dt.weight': [4, 128],
    'ssm_dt.bias': [128],
    ssm_a: [16, 128],
    ssm_d: [128],
    'ssm_out.weight': [128, 64],
  };
}

function hybridMetadata(): Record<string, GgufField> {
  return {
    'tokenizer.chat_template': CHAT_TEMPLATE,
    'lfm2.block_count': 2,
    'lfm2.context_length': 4096,
    'lfm2.embedding_length': 64,
    'lfm2.feed_forward_length': 128,
    'lfm2.attention.head_count': 4,
    'lfm2.attention.head_count_kv': [0, 2],
    'lfm2.attention.layer_norm_rms_epsilon': f32Field(1e-5),
    'lfm2.shortconv.l_cache': 3,
  };
}

function hybridTensors(): Tensors {
  const feedForward = {
    'attn_norm.weight': [64],
    'ffn_norm.weight': [64],
    'ffn_gate.weight': [64, 128],
    'ffn_down.weight': [128, 64],
    'ffn_up.weight': [64, 128],
  };
  return {
    'token_embd.weight': [64, 257],
    'token_embd_norm.weight': [64],
    ...layer(0, {
      ...feedForward,
      'shortconv.conv.weight': [3, 64],
      'shortconv.in_proj.weight': [64, 192],
      'shortconv.out_proj.weight': [64, 64],
    }),
    ...layer(1, {
      ...feedForward,
      'attn_q.weight': [64, 64],
      'attn_k.weight': [64, 32],
      'attn_v.weight': [64, 32],
      'attn_output.weight': [64, 64],
      'attn_q_norm.weight': [16],
      'attn_k_norm.weight': [16],
    }),
  };
}

function attentionMetadata(): Record<string, GgufField> {
  return {
    'qwen3.block_count': 2,
    'qwen3.context_length': 2048,
    'qwen3.embedding_length': 64,
    'qwen3.feed_forward_length': 128,
    'qwen3.attention.head_count': 4,
    'qwen3.attention.head_count_kv': 2,
    'qwen3.attention.key_length': 16,
    'qwen3.attention.value_length': 16,
    'qwen3.attention.layer_norm_rms_epsilon': f32Field(1e-5),
  };
}

function attentionTensors(): Tensors {
  return {
    'token_embd.weight': [64, 257],
    'output_norm.weight': [64],
    ...layer(0, ATTENTION),
    ...layer(1, ATTENTION),
  };
}

/** The last of six layers has no window. */
function windowAttention(): { metadata: Record<string, GgufField>; tensors: Tensors } {
  const metadata = Object.entries(attentionMetadata()).map(([name, value]) => [
    name.replace('qwen3', 'gemma3'),
    value,
  ]);
  const block = { ...ATTENTION, 'post_attention_norm.weight': [64], 'post_ffw_norm.weight': [64] };
  return {
    metadata: {
      ...Object.fromEntries(metadata),
      'gemma3.block_count': 6,
      'gemma3.attention.sliding_window': 32,
    },
    tensors: Object.assign(
      { 'token_embd.weight': [64, 257], 'output_norm.weight': [64] },
      ...Array.from({ length: 6 }, (_, index) => layer(index, block)),
    ) as Tensors,
  };
}

function causalEmbeddings(): { metadata: Record<string, GgufField>; tensors: Tensors } {
  return {
    metadata: {
      ...attentionMetadata(),
      'qwen3.pooling_type': 3,
      'tokenizer.ggml.add_eos_token': true,
    },
    tensors: attentionTensors(),
  };
}

function causalRanker(): { metadata: Record<string, GgufField>; tensors: Tensors } {
  return {
    metadata: {
      ...attentionMetadata(),
      'qwen3.pooling_type': 4,
      'qwen3.classifier.output_labels': ['yes', 'no'],
      'tokenizer.chat_template.rerank': '<end>{query}\n<Document>: {document}<end>',
    },
    tensors: { ...attentionTensors(), 'cls.output.weight': [64, 2] },
  };
}

function bertMetadata(): Record<string, GgufField> {
  return {
    'bert.block_count': 1,
    'bert.context_length': 256,
    'bert.embedding_length': 64,
    'bert.feed_forward_length': 128,
    'bert.attention.head_count': 4,
    'bert.attention.layer_norm_epsilon': f32Field(1e-5),
    'bert.attention.causal': false,
    'tokenizer.ggml.token_type_count': 2,
  };
}

function bertTensors(): Tensors {
  const both = (name: string, dimensions: readonly number[]) => ({
    [`${name}.weight`]: dimensions,
    [`${name}.bias`]: [dimensions.at(-1) ?? 0],
  });
  return {
    'token_embd.weight': [64, 257],
    'token_types.weight': [64, 2],
    'position_embd.weight': [64, 256],
    ...both('token_embd_norm', [64]),
    ...layer(0, {
      ...both('attn_q', [64, 64]),
      ...both('attn_k', [64, 64]),
      ...both('attn_v', [64, 64]),
      ...both('attn_output', [64, 64]),
      ...both('attn_output_norm', [64]),
      ...both('ffn_up', [64, 128]),
      ...both('ffn_down', [128, 64]),
      ...both('layer_output_norm', [64]),
    }),
  };
}

/** Returns a function that returns numbers from 0 to 1 (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
