import { open, type FileHandle } from 'node:fs/promises';
import { ModelFileError } from './errors.ts';

/** The content of a GGUF header: the metadata, and totals of all tensors. */
export interface GgufScan {
  sizeBytes: number;
  /** Numbers, strings and short numeric arrays by key. */
  metadata: ReadonlyMap<string, GgufValue>;
  /** Number of elements by the name of the tensor type, such as `Q8_0`. */
  elementsByType: ReadonlyMap<string, number>;
  /** Whether it has the head of a classifier, as models have that rank texts. */
  hasClassifier: boolean;
  /** Texts of the special tokens, by the metadata key that contains the ID of the token. */
  tokenTexts: ReadonlyMap<string, string>;
  /** Number of tokens in the vocabulary; null if the file has no vocabulary. */
  vocabularySize: number | null;
}

export type GgufValue = string | number | readonly number[];

/** Limits for a header, far above the values of all known models. */
const MAX_KEYS = 10_000;
const MAX_KEY_BYTES = 1024;
const MAX_TENSORS = 200_000;
const MAX_DIMENSIONS = 8;
const MAX_TEXT_BYTES = 1 << 20;
const MAX_KEPT_ARRAY = 4096;
const MAX_TOKEN_BYTES = 4096;
const MAX_ARRAY_DEPTH = 4;

const VOCABULARY_KEY = 'tokenizer.ggml.tokens';
const TOKEN_ID_KEYS = ['tokenizer.ggml.bos_token_id', 'tokenizer.ggml.eos_token_id'];

/**
 * Reads the header of a GGUF file, usually a few megabytes, and checks that the file is long enough for its tensors.
 * The file must have version 2 or 3 and be little-endian.
 * @throws ModelFileError `missing`, `not_a_gguf`, `unsupported`, `truncated` or `damaged`
 */
export async function scanGguf(path: string): Promise<GgufScan> {
  await using file = await openModel(path);
  const stats = await file.stat();
  // A directory can be opened, but not read.
  if (stats.isDirectory()) throw new ModelFileError('missing', path, 'it is a directory');
  const { size } = stats;
  const cursor = new GgufCursor(file, path, size);
  await checkVersion(cursor, path, size);
  const tensorCount = await cursor.u64('the number of tensors');
  const keyCount = await cursor.u64('the number of metadata keys');
  if (tensorCount > MAX_TENSORS) throw cursor.damaged(`it claims ${tensorCount} tensors`);
  if (keyCount > MAX_KEYS) throw cursor.damaged(`it claims ${keyCount} metadata keys`);

  const metadata = new Map<string, GgufValue>();
  let vocabulary: VocabularyLocation | null = null;
  for (let index = 0; index < keyCount; index++) {
    const key = await cursor.string('a metadata key', MAX_KEY_BYTES);
    const type = await cursor.u32();
    if (key === VOCABULARY_KEY) vocabulary = await skipVocabulary(cursor, type);
    else await readValue(cursor, key, type, metadata);
  }
  const { elementsByType, hasClassifier, endOffset } = await readTensors(cursor, tensorCount);
  checkLength(cursor, path, size, endOffset, metadata);
  const tokenTexts = vocabulary === null ? new Map() : await readSpecialTokens(cursor, vocabulary, metadata);
  const vocabularySize = vocabulary?.count ?? null;
  return { sizeBytes: size, metadata, elementsByType, hasClassifier, tokenTexts, vocabularySize };
}

async function openModel(path: string): Promise<FileHandle> {
  try {
    return await open(path, 'r');
  } catch (error) {
    const code = String(error instanceof Error && 'code' in error ? error.code : error);
    const reason = REASONS.get(code) ?? `cannot open the file (${code})`;
    throw new ModelFileError('missing', path, reason, { cause: error });
  }
}

const REASONS: ReadonlyMap<string, string> = new Map([
  ['ENOENT', 'no such file'],
  ['ENOTDIR', 'no such file'],
  ['EISDIR', 'it is a directory'],
  ['EACCES', 'permission denied'],
]);

async function checkVersion(cursor: GgufCursor, path: string, size: number): Promise<void> {
  if (size < 4) throw new ModelFileError('not_a_gguf', path, `not a GGUF file: it has ${size} bytes`);
  const magic = Buffer.from(await cursor.bytes(4));
  if (magic.toString('latin1') !== 'GGUF') {
    const found = magic.toString('latin1').replaceAll(/[^\x20-\x7e]/g, '.');
    throw new ModelFileError('not_a_gguf', path, `not a GGUF file: it starts with "${found}", not "GGUF"`);
  }
  const version = await cursor.u32();
  // Versions are small numbers, so the low 16 bits are 0 only if the file is big-endian.
  if ((version & 0xffff) === 0) {
    throw new ModelFileError('unsupported', path, 'a big-endian GGUF file; expected little-endian');
  }
  if (version !== 2 && version !== 3) {
    throw new ModelFileError('unsupported', path, `GGUF version ${version}; expected version 2 or 3`);
  }
}

async function readValue(
  cursor: GgufCursor,
  key: string,
  type: number,
  into: Map<string, GgufValue>,
): Promise<void> {
  if (type === STRING_TYPE) {
    into.set(key, await cursor.string(key, MAX_TEXT_BYTES));
    return;
  }
  if (type === ARRAY_TYPE) {
    const values = await readArray(cursor, key, 1);
    if (values !== null) into.set(key, values);
    return;
  }
  const number = NUMBER_TYPES.get(type);
  if (number === undefined) throw cursor.damaged(`${key} has the unknown type ${type}`);
  into.set(key, number.read(await cursor.bytes(number.width), 0));
}

/** Reads a short numeric array. Skips any other array and returns null. */
async function readArray(cursor: GgufCursor, key: string, depth: number): Promise<readonly number[] | null> {
  if (depth > MAX_ARRAY_DEPTH) throw cursor.damaged(`${key} is nested deeper than ${MAX_ARRAY_DEPTH} arrays`);
  const type = await cursor.u32();
  const count = await cursor.u64(`the length of ${key}`);
  if (type === STRING_TYPE) {
    await cursor.skipStrings(count);
    return null;
  }
  if (type === ARRAY_TYPE) {
    if (count > MAX_KEPT_ARRAY) throw cursor.damaged(`${key} has ${count} arrays`);
    for (let index = 0; index < count; index++) await readArray(cursor, key, depth + 1);
    return null;
  }
  const number = NUMBER_TYPES.get(type);
  if (number === undefined) throw cursor.damaged(`${key} contains the unknown type ${type}`);
  const { width, read } = number;
  if (count > MAX_KEPT_ARRAY) {
    cursor.skip(count * width);
    return null;
  }
  const bytes = await cursor.bytes(count * width);
  return Array.from({ length: count }, (_, index) => read(bytes, index * width));
}

interface VocabularyLocation {
  /** Position of the first token in the file. */
  position: number;
  count: number;
}

async function skipVocabulary(cursor: GgufCursor, type: number): Promise<VocabularyLocation> {
  if (type !== ARRAY_TYPE || (await cursor.u32()) !== STRING_TYPE) {
    throw cursor.damaged(`${VOCABULARY_KEY} is not an array of strings`);
  }
  const count = await cursor.u64(`the length of ${VOCABULARY_KEY}`);
  const { position } = cursor;
  await cursor.skipStrings(count);
  return { position, count };
}

/** Reads the text of special tokens in a second pass, because their IDs may come after the vocabulary in the file. */
async function readSpecialTokens(
  cursor: GgufCursor,
  vocabulary: VocabularyLocation,
  metadata: ReadonlyMap<string, GgufValue>,
): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>();
  for (const key of TOKEN_ID_KEYS) {
    const id = metadata.get(key);
    if (typeof id !== 'number' || !Number.isInteger(id) || id < 0 || id >= vocabulary.count) continue;
    cursor.seek(vocabulary.position);
    await cursor.skipStrings(id);
    texts.set(key, await cursor.string(`token ${id}`, MAX_TOKEN_BYTES));
  }
  return texts;
}

/** llama.cpp's names of the two layers of a classifier, of which a model has one or both. */
const CLASSIFIER = /^cls(\.output)?\.weight$/;

interface TensorTotals {
  elementsByType: Map<string, number>;
  hasClassifier: boolean;
  /** Bytes from the start of the tensor data to the end of the last tensor. */
  endOffset: number;
}

async function readTensors(cursor: GgufCursor, count: number): Promise<TensorTotals> {
  const totals: TensorTotals = { elementsByType: new Map(), hasClassifier: false, endOffset: 0 };
  for (let index = 0; index < count; index++) {
    if (CLASSIFIER.test(await cursor.string('the name of a tensor', MAX_KEY_BYTES)))
      totals.hasClassifier = true;
    const dimensions = await cursor.u32();
    if (dimensions > MAX_DIMENSIONS) throw cursor.damaged(`tensor ${index} has ${dimensions} dimensions`);
    let elements = 1;
    for (let axis = 0; axis < dimensions; axis++)
      elements *= await cursor.u64(`a dimension of tensor ${index}`);
    const type = await cursor.u32();
    const offset = await cursor.u64(`the offset of tensor ${index}`);
    const [name, blockElements, blockBytes] = TENSOR_TYPES.get(type) ?? [`type ${type}`, 1, 0];
    const end = offset + Math.ceil(elements / blockElements) * blockBytes;
    if (!Number.isSafeInteger(elements) || !Number.isSafeInteger(end)) {
      throw cursor.damaged(`tensor ${index} claims ${elements} elements`);
    }
    totals.elementsByType.set(name, (totals.elementsByType.get(name) ?? 0) + elements);
    totals.endOffset = Math.max(totals.endOffset, end);
  }
  return totals;
}

function checkLength(
  cursor: GgufCursor,
  path: string,
  size: number,
  endOffset: number,
  metadata: ReadonlyMap<string, GgufValue>,
): void {
  if (endOffset === 0) return;
  const alignment = metadata.get('general.alignment') ?? 32;
  if (typeof alignment !== 'number' || !Number.isInteger(alignment) || alignment < 1) {
    throw cursor.damaged(`general.alignment is ${String(alignment)}`);
  }
  const needed = Math.ceil(cursor.position / alignment) * alignment + endOffset;
  if (size >= needed) return;
  throw new ModelFileError(
    'truncated',
    path,
    `truncated: its tensors need ${needed} bytes, the file has ${size}`,
  );
}

/** Size of the buffer, and the maximum that `#load` can read at once. */
const CHUNK_BYTES = 1 << 18;

/**
 * Reads a GGUF header through a buffer of 256 KiB. Before reading, checks that each length fits in the rest of the
 * file, so that a wrong length cannot cause a large allocation.
 */
class GgufCursor {
  readonly #file: FileHandle;
  readonly #path: string;
  readonly #sizeBytes: number;
  #buffer = Buffer.alloc(0);
  /** Position of the buffer in the file. */
  #bufferStart = 0;
  /** Position of the next byte in the buffer. After a long skip, this is beyond the end of the buffer. */
  #offset = 0;

  constructor(file: FileHandle, path: string, sizeBytes: number) {
    this.#file = file;
    this.#path = path;
    this.#sizeBytes = sizeBytes;
  }

  /** Position of the next byte in the file. */
  get position(): number {
    return this.#bufferStart + this.#offset;
  }

  seek(position: number): void {
    this.#offset = position - this.#bufferStart;
    if (this.#offset < 0) {
      this.#bufferStart = position;
      this.#offset = 0;
      this.#buffer = Buffer.alloc(0);
    }
  }

  async u32(): Promise<number> {
    await this.#load(4);
    return this.#buffer.readUInt32LE(this.#advance(4));
  }

  /**
   * Reads an unsigned 64-bit integer. Throws if it is 2^53 or more. `what` describes the value in the error message.
   */
  async u64(what: string): Promise<number> {
    await this.#load(8);
    const value = this.#buffer.readBigUInt64LE(this.#advance(8));
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw this.damaged(`${what} is ${value}`);
    return Number(value);
  }

  /** Reads `count` bytes, at most 256 KiB. The returned buffer is valid until the next call. */
  async bytes(count: number): Promise<Buffer> {
    await this.#load(count);
    const start = this.#advance(count);
    return this.#buffer.subarray(start, start + count);
  }

  /** Reads a UTF-8 string, which is preceded by its length. Throws if it is longer than `maxBytes`. */
  async string(what: string, maxBytes: number): Promise<string> {
    const length = await this.u64(`the length of ${what}`);
    this.#checkRemaining(length);
    if (length > maxBytes) throw this.damaged(`${what} is ${length} bytes long; the maximum is ${maxBytes}`);
    const parts: Buffer[] = [];
    for (let left = length; left > 0;) {
      const take = Math.min(left, CHUNK_BYTES);
      parts.push(Buffer.from(await this.bytes(take)));
      left -= take;
    }
    return Buffer.concat(parts).toString('utf8');
  }

  skip(count: number): void {
    this.#checkRemaining(count);
    this.#offset += count;
  }

  /** Skips strings without decoding them, because a vocabulary can have several hundred thousand. */
  async skipStrings(count: number): Promise<void> {
    this.#checkRemaining(count * 8);
    for (let left = count; left > 0; left--) {
      if (this.#offset + 8 > this.#buffer.length) await this.#load(8);
      const length =
        this.#buffer.readUInt32LE(this.#offset) + this.#buffer.readUInt32LE(this.#offset + 4) * 2 ** 32;
      this.#offset += 8;
      this.skip(length);
    }
  }

  damaged(reason: string): ModelFileError {
    return new ModelFileError('damaged', this.#path, `damaged GGUF: ${reason} (at byte ${this.position})`);
  }

  #advance(count: number): number {
    const start = this.#offset;
    this.#offset += count;
    return start;
  }

  #checkRemaining(count: number): void {
    const needed = this.position + count;
    if (needed <= this.#sizeBytes) return;
    throw new ModelFileError(
      'truncated',
      this.#path,
      `truncated: its header needs ${needed} bytes, the file has ${this.#sizeBytes}`,
    );
  }

  async #load(count: number): Promise<void> {
    if (this.#offset + count <= this.#buffer.length) return;
    this.#checkRemaining(count);
    const position = this.position;
    const target = Buffer.alloc(Math.min(CHUNK_BYTES, this.#sizeBytes - position));
    let filled = 0;
    while (filled < count) {
      const { bytesRead } = await this.#file.read(target, filled, target.length - filled, position + filled);
      if (bytesRead === 0) throw this.damaged('the file was truncated while it was being read');
      filled += bytesRead;
    }
    this.#buffer = target.subarray(0, filled);
    this.#bufferStart = position;
    this.#offset = 0;
  }
}

/**
 * Constants of the GGUF format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, `include/ggml.h` and
 * `include/llama.h`.
 */

/** Tensor type -> name, elements per block, bytes per block. */
const TENSOR_TYPES: ReadonlyMap<number, readonly [name: string, elements: number, bytes: number]> = new Map([
  [0, ['F32', 1, 4]],
  [1, ['F16', 1, 2]],
  [2, ['Q4_0', 32, 18]],
  [3, ['Q4_1', 32, 20]],
  [6, ['Q5_0', 32, 22]],
  [7, ['Q5_1', 32, 24]],
  [8, ['Q8_0', 32, 34]],
  [9, ['Q8_1', 32, 36]],
  [10, ['Q2_K', 256, 84]],
  [11, ['Q3_K', 256, 110]],
  [12, ['Q4_K', 256, 144]],
  [13, ['Q5_K', 256, 176]],
  [14, ['Q6_K', 256, 210]],
  [15, ['Q8_K', 256, 292]],
  [16, ['IQ2_XXS', 256, 66]],
  [17, ['IQ2_XS', 256, 74]],
  [18, ['IQ3_XXS', 256, 98]],
  [19, ['IQ1_S', 256, 50]],
  [20, ['IQ4_NL', 32, 18]],
  [21, ['IQ3_S', 256, 110]],
  [22, ['IQ2_S', 256, 82]],
  [23, ['IQ4_XS', 256, 136]],
  [24, ['I8', 1, 1]],
  [25, ['I16', 1, 2]],
  [26, ['I32', 1, 4]],
  [27, ['I64', 1, 8]],
  [28, ['F64', 1, 8]],
  [29, ['IQ1_M', 256, 56]],
  [30, ['BF16', 1, 2]],
  [34, ['TQ1_0', 256, 54]],
  [35, ['TQ2_0', 256, 66]],
  [39, ['MXFP4', 32, 17]],
]);

/** `general.file_type` -> name of the quantization. */
export const FILE_TYPES: ReadonlyMap<number, string> = new Map([
  [0, 'F32'],
  [1, 'F16'],
  [2, 'Q4_0'],
  [3, 'Q4_1'],
  [7, 'Q8_0'],
  [8, 'Q5_0'],
  [9, 'Q5_1'],
  [10, 'Q2_K'],
  [11, 'Q3_K_S'],
  [12, 'Q3_K_M'],
  [13, 'Q3_K_L'],
  [14, 'Q4_K_S'],
  [15, 'Q4_K_M'],
  [16, 'Q5_K_S'],
  [17, 'Q5_K_M'],
  [18, 'Q6_K'],
  [19, 'IQ2_XXS'],
  [20, 'IQ2_XS'],
  [21, 'Q2_K_S'],
  [22, 'IQ3_XS'],
  [23, 'IQ3_XXS'],
  [24, 'IQ1_S'],
  [25, 'IQ4_NL'],
  [26, 'IQ3_S'],
  [27, 'IQ3_M'],
  [28, 'IQ2_S'],
  [29, 'IQ2_M'],
  [30, 'IQ4_XS'],
  [31, 'IQ1_M'],
  [32, 'BF16'],
  [36, 'TQ1_0'],
  [37, 'TQ2_0'],
  [38, 'MXFP4'],
]);

interface NumberType {
  /** In bytes. */
  width: number;
  read: (bytes: Buffer, offset: number) => number;
}

/** Numeric types of metadata. Booleans are 0 or 1, and 64-bit integers are rounded to doubles. */
const NUMBER_TYPES: ReadonlyMap<number, NumberType> = new Map<number, NumberType>([
  [0, { width: 1, read: (bytes, offset) => bytes.readUInt8(offset) }],
  [1, { width: 1, read: (bytes, offset) => bytes.readInt8(offset) }],
  [2, { width: 2, read: (bytes, offset) => bytes.readUInt16LE(offset) }],
  [3, { width: 2, read: (bytes, offset) => bytes.readInt16LE(offset) }],
  [4, { width: 4, read: (bytes, offset) => bytes.readUInt32LE(offset) }],
  [5, { width: 4, read: (bytes, offset) => bytes.readInt32LE(offset) }],
  [6, { width: 4, read: (bytes, offset) => bytes.readFloatLE(offset) }],
  [7, { width: 1, read: (bytes, offset) => bytes.readUInt8(offset) }],
  [10, { width: 8, read: (bytes, offset) => Number(bytes.readBigUInt64LE(offset)) }],
  [11, { width: 8, read: (bytes, offset) => Number(bytes.readBigInt64LE(offset)) }],
  [12, { width: 8, read: (bytes, offset) => bytes.readDoubleLE(offset) }],
]);

const STRING_TYPE = 8;
const ARRAY_TYPE = 9;
