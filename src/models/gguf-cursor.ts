import type { FileHandle } from 'node:fs/promises';
import { ModelFileError } from './model-file-error.ts';

/** Size of the buffer, and the maximum that `#load` can read at once. */
const CHUNK_BYTES = 1 << 18;

/**
 * Reads a GGUF header through a buffer of 256 KiB. Before reading, checks that each length fits in the rest of the
 * file, so that a wrong length cannot cause a large allocation.
 */
export class GgufCursor {
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
