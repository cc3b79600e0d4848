import { promptTexts, type GenerationRequest } from '../core/generation.ts';

/** Length of a block in UTF-8, in bytes. */
export const BLOCK_BYTES = 256;

/** Average length of a token, for estimates. */
export const BYTES_PER_TOKEN = 4;

/** The prompt of a request as blocks. */
export interface PromptBlocks {
  /**
   * A hash of 32 bits per complete block, which depends on the cache scope and on all blocks before it. Empty if the
   * request has no cache scope, because its prefix is never reused. A collision only makes an estimate wrong.
   */
  readonly hashes: readonly number[];
  /** Length of the whole prompt in UTF-8, in bytes. */
  readonly bytes: number;
}

/** Splits the prompt of a request into blocks. Takes about 6 µs for 10 KB. */
export function promptBlocks(request: GenerationRequest): PromptBlocks {
  const texts = promptTexts(request);
  if (request.cacheScope === null) {
    return { hashes: [], bytes: texts.reduce((sum, text) => sum + Buffer.byteLength(text) + 1, 0) };
  }
  const hasher = new BlockHasher(request.cacheScope);
  for (const text of texts) hasher.append(text);
  return hasher.finish();
}

/** The longest text that is encoded at once, in UTF-16 code units, which take up to three bytes each. */
const MAX_PIECE = 16_384;

/** A buffer for the text that is not hashed yet. One prompt is hashed at a time. */
const buffer = Buffer.from(new ArrayBuffer(4 * MAX_PIECE));
/** The same buffer as words, because hashing four bytes at once is faster. */
const words = new Uint32Array(buffer.buffer);

/** Hashes the blocks of several texts, each followed by a null byte. */
class BlockHasher {
  readonly #hashes: number[] = [];
  #hash: number;
  /** Bytes in the buffer. */
  #filled = 0;

  constructor(cacheScope: string) {
    this.#hash = cacheScope.length;
    for (let index = 0; index < cacheScope.length; index++) {
      this.#hash = mix(this.#hash, cacheScope.charCodeAt(index));
    }
  }

  append(text: string): void {
    for (let start = 0; start < text.length; start += MAX_PIECE) {
      if (this.#filled + 3 * MAX_PIECE > buffer.length) this.#hashBlocks();
      const piece = text.length <= MAX_PIECE ? text : text.slice(start, start + MAX_PIECE);
      this.#filled += buffer.write(piece, this.#filled);
    }
    if (this.#filled === buffer.length) this.#hashBlocks();
    buffer[this.#filled++] = 0;
  }

  finish(): PromptBlocks {
    this.#hashBlocks();
    return { hashes: this.#hashes, bytes: this.#hashes.length * BLOCK_BYTES + this.#filled };
  }

  /** Hashes the complete blocks, and moves the rest to the start of the buffer. */
  #hashBlocks(): void {
    const end = this.#filled - (this.#filled % BLOCK_BYTES);
    for (let block = 0; block < end; block += BLOCK_BYTES) {
      let hash = this.#hash;
      const last = (block + BLOCK_BYTES) / 4;
      for (let word = block / 4; word < last; word++) hash = mix(hash, words[word] as number);
      this.#hash = hash;
      this.#hashes.push(hash);
    }
    buffer.copyWithin(0, end, this.#filled);
    this.#filled -= end;
  }
}

function mix(hash: number, value: number): number {
  const product = Math.imul(hash ^ value, 0x9e3779b1);
  return product ^ (product >>> 15);
}

/**
 * Estimates which prompts are in the prefix cache of one replica, from the prompts that were sent there. Remembers the
 * most recently used blocks: at most `maxBlocks`, and at least half as many. The cache hits that the replica reports do
 * not correct the estimate: even if a prompt was evicted, the conversation should stay there, because another replica
 * would have to evict another prompt for it.
 *
 * The blocks are in two generations, which is faster than keeping them in order: when the recent generation is full, it
 * replaces the older one.
 */
export class PrefixIndex {
  readonly #maxGeneration: number;
  #recent = new Set<number>();
  #older: ReadonlySet<number> = new Set<number>();

  /** `maxBlocks` is at least 2. */
  constructor(maxBlocks: number) {
    this.#maxGeneration = Math.floor(maxBlocks / 2);
  }

  /** Number of remembered blocks, at most `maxBlocks`. Blocks in both generations count twice. */
  get size(): number {
    return this.#recent.size + this.#older.size;
  }

  /** Estimates how much of the prompt is cached, in bytes from its start. */
  cachedBytes({ hashes }: PromptBlocks): number {
    let known = 0;
    for (const hash of hashes) {
      if (!this.#recent.has(hash) && !this.#older.has(hash)) break;
      known++;
    }
    return known * BLOCK_BYTES;
  }

  /** Records that the prompt was sent to the replica. */
  record({ hashes }: PromptBlocks): void {
    // The last block comes first, so that the start of the prompt is remembered longest.
    for (let index = hashes.length - 1; index >= 0; index--) {
      if (this.#recent.size === this.#maxGeneration) {
        this.#older = this.#recent;
        this.#recent = new Set();
      }
      this.#recent.add(hashes[index] as number);
    }
  }

  /** Forgets all prompts, because the replica was restarted. */
  clear(): void {
    this.#recent = new Set();
    this.#older = new Set();
  }
}
