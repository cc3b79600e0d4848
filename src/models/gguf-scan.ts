import { open, type FileHandle } from 'node:fs/promises';
import { GgufCursor } from './gguf-cursor.ts';
import { ARRAY_TYPE, NUMBER_BYTES, readNumber, STRING_TYPE, TENSOR_TYPES } from './gguf-types.ts';
import { ModelFileError } from './model-file-error.ts';

/** The content of a GGUF header: the metadata, and totals of all tensors. */
export interface GgufScan {
  version: number;
  sizeBytes: number;
  /** Numbers, strings and short numeric arrays by key. */
  metadata: ReadonlyMap<string, GgufValue>;
  tensorCount: number;
  /** Number of elements in all tensors. */
  elements: number;
  /** Number of elements by the name of the tensor type, such as `Q8_0`. */
  elementsByType: ReadonlyMap<string, number>;
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
  const { size } = await file.stat();
  const cursor = new GgufCursor(file, path, size);
  const version = await readVersion(cursor, path, size);
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
  const tensors = await readTensors(cursor, tensorCount);
  checkLength(cursor, path, size, tensors.endOffset, metadata);
  const tokenTexts = vocabulary === null ? new Map() : await readSpecialTokens(cursor, vocabulary, metadata);
  const vocabularySize = vocabulary?.count ?? null;
  return { version, sizeBytes: size, metadata, tensorCount, ...tensors, tokenTexts, vocabularySize };
}

async function openModel(path: string): Promise<FileHandle> {
  try {
    await using stack = new AsyncDisposableStack();
    const file = stack.use(await open(path, 'r'));
    // A directory can be opened, but not read.
    if ((await file.stat()).isDirectory()) throw Object.assign(new Error('a directory'), { code: 'EISDIR' });
    stack.move();
    return file;
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : error;
    const reason = code === 'ENOENT' ? 'no such file' : `cannot open the file (${String(code)})`;
    throw new ModelFileError('missing', path, reason, { cause: error });
  }
}

async function readVersion(cursor: GgufCursor, path: string, size: number): Promise<number> {
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
  return version;
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
  const width = NUMBER_BYTES.get(type);
  if (width === undefined) throw cursor.damaged(`${key} has the unknown type ${type}`);
  into.set(key, readNumber(type, await cursor.bytes(width)));
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
  const width = NUMBER_BYTES.get(type);
  if (width === undefined) throw cursor.damaged(`${key} contains the unknown type ${type}`);
  if (count > MAX_KEPT_ARRAY) {
    cursor.skip(count * width);
    return null;
  }
  const bytes = await cursor.bytes(count * width);
  return Array.from({ length: count }, (_, index) => readNumber(type, bytes, index * width));
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

interface TensorTotals {
  elements: number;
  elementsByType: Map<string, number>;
  /** Bytes from the start of the tensor data to the end of the last tensor. */
  endOffset: number;
}

async function readTensors(cursor: GgufCursor, count: number): Promise<TensorTotals> {
  const totals: TensorTotals = { elements: 0, elementsByType: new Map(), endOffset: 0 };
  for (let index = 0; index < count; index++) {
    await cursor.skipStrings(1);
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
    totals.elements += elements;
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
