export type GgufField = string | number | boolean | readonly string[] | readonly number[] | RawField;

/** A value of any type, as its bytes in the file. */
export interface RawField {
  type: number;
  bytes: Buffer;
}

export interface GgufTensor {
  name: string;
  dimensions: readonly number[];
  type: number;
  sizeBytes: number;
  /** Arbitrary if absent. */
  data?: Uint8Array;
}

export interface GgufParts {
  magic?: string;
  version?: number;
  metadata?: Readonly<Record<string, GgufField>>;
  tensors?: readonly GgufTensor[];
  /** Bytes to remove from the end. */
  cutBytes?: number;
  /** Written instead of the actual counts. */
  tensorCount?: bigint;
  keyCount?: bigint;
}

/** Metadata of a tiny Llama model with a chat template. */
export const TINY_METADATA: Readonly<Record<string, GgufField>> = {
  'general.architecture': 'llama',
  'general.name': 'Tiny',
  'general.file_type': 7,
  'llama.block_count': 2,
  'llama.context_length': 256,
  'llama.embedding_length': 64,
  'llama.attention.head_count': 4,
  'llama.attention.head_count_kv': 2,
  'tokenizer.ggml.model': 'gpt2',
  'tokenizer.ggml.pre': 'llama-bpe',
  'tokenizer.ggml.tokens': ['<s>', '</s>', 'a', 'ü'],
  'tokenizer.ggml.bos_token_id': 0,
  'tokenizer.ggml.eos_token_id': 1,
  'tokenizer.ggml.add_bos_token': true,
  'tokenizer.chat_template': '{{ messages[0].content }}',
};

/** One Q8_0 tensor of 64 x 2 elements: four blocks of 34 bytes. */
export const TINY_TENSORS: readonly GgufTensor[] = [
  { name: 'token_embd.weight', dimensions: [64, 2], type: 8, sizeBytes: 136 },
];

/** Builds a GGUF file, by default a complete one of a tiny model. */
export function buildGguf(parts: GgufParts = {}): Buffer {
  const metadata = Object.entries(parts.metadata ?? TINY_METADATA);
  const tensors = parts.tensors ?? TINY_TENSORS;
  const infos: Buffer[] = [];
  let offset = 0;
  for (const { name, dimensions, type, sizeBytes } of tensors) {
    infos.push(text(name), u32(dimensions.length), ...dimensions.map((size) => u64(BigInt(size))));
    infos.push(u32(type), u64(BigInt(offset)));
    offset += align(sizeBytes);
  }
  const header = Buffer.concat([
    Buffer.from(parts.magic ?? 'GGUF', 'latin1'),
    u32(parts.version ?? 3),
    u64(parts.tensorCount ?? BigInt(tensors.length)),
    u64(parts.keyCount ?? BigInt(metadata.length)),
    ...metadata.flatMap(([key, value]) => [text(key), field(value)]),
    ...infos,
  ]);
  const start = tensors.length === 0 ? 0 : align(header.length) - header.length;
  const data = Buffer.alloc(start + offset, 7);
  let position = start;
  for (const tensor of tensors) {
    if (tensor.data !== undefined) data.set(tensor.data, position);
    position += align(tensor.sizeBytes);
  }
  const whole = Buffer.concat([header, data]);
  return whole.subarray(0, whole.length - (parts.cutBytes ?? 0));
}

/** Returns the metadata of one file of a split model. */
export function splitMetadata(number: number, count: number): Readonly<Record<string, GgufField>> {
  const split = { 'split.no': u16Field(number - 1), 'split.count': u16Field(count) };
  return number === 1 ? { ...TINY_METADATA, ...split } : split;
}

function field(value: GgufField): Buffer {
  if (typeof value === 'string') return Buffer.concat([u32(8), text(value)]);
  if (typeof value === 'number') return Buffer.concat([u32(4), u32(value)]);
  if (typeof value === 'boolean') return Buffer.concat([u32(7), Buffer.from([value ? 1 : 0])]);
  if ('bytes' in value) return Buffer.concat([u32(value.type), value.bytes]);
  const items = value.map((item) => (typeof item === 'string' ? text(item) : u32(item)));
  return Buffer.concat([
    u32(9),
    u32(typeof value[0] === 'string' ? 8 : 4),
    u64(BigInt(items.length)),
    ...items,
  ]);
}

export function f32Field(value: number): RawField {
  const bytes = Buffer.alloc(4);
  bytes.writeFloatLE(value);
  return { type: 6, bytes };
}

/** For values that llama.cpp only reads as signed integers. */
export function i32Array(values: readonly number[]): RawField {
  return { type: 9, bytes: Buffer.concat([u32(5), u64(BigInt(values.length)), ...values.map(u32)]) };
}

function u16Field(value: number): RawField {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return { type: 2, bytes };
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value, 'utf8');
  return Buffer.concat([u64(BigInt(bytes.length)), bytes]);
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

function align(size: number): number {
  return Math.ceil(size / 32) * 32;
}
