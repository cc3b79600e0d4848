import { basename, dirname, join } from 'node:path';
import { FILE_TYPES } from './gguf-types.ts';
import { scanGguf, type GgufScan, type GgufValue } from './gguf-scan.ts';
import { splitFiles } from './layout.ts';
import { ModelFileError } from './model-file-error.ts';
import { tokenizerFamily } from './tokenizer-family.ts';

/** What a GGUF model file says of itself. Of a split model: all its files together. */
export interface GgufInfo {
  /** Absolute or relative as given: the first file of a split model. */
  path: string;
  /** Such as `llama` or `qwen3`. */
  architecture: string;
  /** `general.name`; null: not given. */
  name: string | null;
  /** Tokens that the model was trained to see at once. */
  contextTokens: number;
  /** The Jinja source of `tokenizer.chat_template`; null: a base model without one. */
  chatTemplate: string | null;
  /** As model lists name it, such as `Llama3` or `Qwen`. */
  tokenizerFamily: string;
  /** Text of the token that begins, and of that which ends, a text; null: the file names none. */
  bosToken: string | null;
  eosToken: string | null;
  /** Whether the file asks for the begin token before a prompt; null: it leaves that to the tokenizer's kind. */
  addBosToken: boolean | null;
  /** The file type in words, such as `Q4_1`; where the file gives none, the type of most of its weights. */
  quantization: string;
  /** `general.file_type` as it stands; null: not given. */
  fileType: number | null;
  /** Null: neither given nor to be counted. */
  parameterCount: number | null;
  /**
   * Bytes of KV cache a token in F16, all layers together. Sliding windows are not taken off, so it is an upper
   * bound; 0 where the file names no attention heads, as for purely recurrent models.
   */
  kvBytesPerToken: number;
  layerCount: number;
  /** Files the model is split into; 1: not split. */
  splitCount: number;
  /** Every file, absolute or relative as `path` is, in order. */
  files: readonly string[];
  /** Bytes of all files. */
  sizeBytes: number;
}

/**
 * Reads what the model file says of itself, and checks its structure; of a split model `path` is its first file
 * and the others lie beside it. The weights are not read.
 * @throws ModelFileError `missing`, `not_a_gguf`, `unsupported`, `truncated` or `damaged`.
 */
export async function readGguf(path: string): Promise<GgufInfo> {
  const first = await scanGguf(path);
  const fields = new Fields(path, first.metadata);
  const files = fileNames(path, fields);
  const scans = [first];
  for (const file of files.slice(1)) scans.push(await scanGguf(file));

  const architecture = fields.requiredText('general.architecture');
  const fileType = fields.number('general.file_type');
  const elements = scans.reduce((sum, scan) => sum + scan.elements, 0);
  return {
    path,
    architecture,
    name: fields.text('general.name'),
    contextTokens: fields.requiredNumber(`${architecture}.context_length`),
    chatTemplate: fields.text('tokenizer.chat_template'),
    tokenizerFamily: tokenizerFamily(
      fields.text('tokenizer.ggml.model'),
      fields.text('tokenizer.ggml.pre'),
      architecture,
    ),
    bosToken: first.tokenTexts.get('tokenizer.ggml.bos_token_id') ?? null,
    eosToken: first.tokenTexts.get('tokenizer.ggml.eos_token_id') ?? null,
    addBosToken: fields.flag('tokenizer.ggml.add_bos_token'),
    quantization: (fileType === null ? undefined : FILE_TYPES.get(fileType)) ?? commonestType(scans),
    fileType,
    parameterCount: fields.number('general.parameter_count') ?? (elements === 0 ? null : elements),
    kvBytesPerToken: kvBytesPerToken(fields, architecture),
    layerCount: fields.number(`${architecture}.block_count`) ?? 0,
    splitCount: files.length,
    files,
    sizeBytes: scans.reduce((sum, scan) => sum + scan.sizeBytes, 0),
  };
}

function fileNames(path: string, fields: Fields): readonly string[] {
  const count = fields.number('split.count') ?? 1;
  if (count <= 1) return [path];
  const names = splitFiles(basename(path));
  const number = (fields.number('split.no') ?? 0) + 1;
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

/** Keys and values of every layer at two bytes a number; heads may differ by layer. */
function kvBytesPerToken(fields: Fields, architecture: string): number {
  const layers = fields.number(`${architecture}.block_count`) ?? 0;
  const heads = fields.numbers(`${architecture}.attention.head_count`);
  const kvHeads = fields.numbers(`${architecture}.attention.head_count_kv`) ?? heads;
  if (kvHeads === null) return 0;
  const embedding = fields.number(`${architecture}.embedding_length`) ?? 0;
  const widest = Math.max(1, ...(heads ?? [1]));
  const keyLength = fields.number(`${architecture}.attention.key_length`) ?? embedding / widest;
  const valueLength = fields.number(`${architecture}.attention.value_length`) ?? embedding / widest;
  // One number holds for all layers; the list of a model that differs by layer may be longer than its layers.
  const [only] = kvHeads;
  const total =
    kvHeads.length === 1
      ? (only ?? 0) * layers
      : kvHeads.slice(0, layers).reduce((sum, heads) => sum + heads, 0);
  return Math.ceil(total * (keyLength + valueLength) * 2);
}

function commonestType(scans: readonly GgufScan[]): string {
  const totals = new Map<string, number>();
  for (const scan of scans) {
    for (const [name, elements] of scan.elementsByType) totals.set(name, (totals.get(name) ?? 0) + elements);
  }
  const [first] = [...totals].sort((a, b) => b[1] - a[1]);
  return first?.[0] ?? 'unknown';
}

/** Typed access to metadata; a value of another type than the format's reads as absent. */
class Fields {
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

  /** One number for all layers, or one for each. */
  numbers(key: string): readonly number[] | null {
    const value = this.#metadata.get(key);
    if (typeof value === 'number') return [value];
    return value === undefined || typeof value === 'string' || value.length === 0 ? null : value;
  }

  requiredText(key: string): string {
    return this.text(key) ?? this.#absent(key);
  }

  requiredNumber(key: string): number {
    return this.number(key) ?? this.#absent(key);
  }

  #absent(key: string): never {
    throw new ModelFileError(
      'unsupported',
      this.#path,
      `not a text generation model: its metadata has no "${key}"`,
    );
  }
}
