import type { FileHandle } from 'node:fs/promises';
import { ModelFileError } from './model-file-error.ts';

/** Bytes read from the file at once; also the most that one `need` may ask for. */
const CHUNK_BYTES = 1 << 18;

/**
 * Reads a GGUF header front to back through one buffer of 256 KiB, whatever the size of the file. Every length
 * is compared with what the file still has before anything is read, so a false length costs no memory.
 */
export class GgufCursor {
  readonly #file: FileHandle;
  readonly #path: string;
  readonly #sizeBytes: number;
  #buffer = Buffer.alloc(0);
  /** Place of the buffer's first byte in the file. */
  #base = 0;
  /** Place of the next byte within the buffer; beyond its end after a long skip. */
  #next = 0;

  constructor(file: FileHandle, path: string, sizeBytes: number) {
    this.#file = file;
    this.#path = path;
    this.#sizeBytes = sizeBytes;
  }

  /** Place of the next byte in the file. */
  get position(): number {
    return this.#base + this.#next;
  }

  /** Goes to a place in the file, forward or back. */
  seek(position: number): void {
    this.#next = position - this.#base;
    if (this.#next < 0) {
      this.#base = position;
      this.#next = 0;
      this.#buffer = Buffer.alloc(0);
    }
  }

  async u32(): Promise<number> {
    await this.#need(4);
    return this.#buffer.readUInt32LE(this.#advance(4));
  }

  /** An unsigned 64-bit number; refused above 2^53, which no true count or length reaches. */
  async u64(what: string): Promise<number> {
    await this.#need(8);
    const value = this.#buffer.readBigUInt64LE(this.#advance(8));
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw this.damaged(`${what} is ${value}`);
    return Number(value);
  }

  /** The next bytes, at most 256 KiB of them; valid until the next call. */
  async bytes(count: number): Promise<Buffer> {
    await this.#need(count);
    const start = this.#advance(count);
    return this.#buffer.subarray(start, start + count);
  }

  /** A length and that many bytes of UTF-8; longer than `maxBytes` is damage. */
  async string(what: string, maxBytes: number): Promise<string> {
    const length = await this.u64(`the length of ${what}`);
    this.#mustHold(length);
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
    this.#mustHold(count);
    this.#next += count;
  }

  /** Skips strings without decoding them: a vocabulary has several hundred thousand. */
  async skipStrings(count: number): Promise<void> {
    this.#mustHold(count * 8);
    for (let left = count; left > 0; left--) {
      if (this.#next + 8 > this.#buffer.length) await this.#need(8);
      const length =
        this.#buffer.readUInt32LE(this.#next) + this.#buffer.readUInt32LE(this.#next + 4) * 2 ** 32;
      this.#next += 8;
      this.skip(length);
    }
  }

  damaged(reason: string): ModelFileError {
    return new ModelFileError('damaged', this.#path, `damaged GGUF: ${reason} (at byte ${this.position})`);
  }

  #advance(count: number): number {
    const start = this.#next;
    this.#next += count;
    return start;
  }

  #mustHold(count: number): void {
    const needed = this.position + count;
    if (needed <= this.#sizeBytes) return;
    throw new ModelFileError(
      'truncated',
      this.#path,
      `truncated: its header needs ${needed} bytes, the file has ${this.#sizeBytes}`,
    );
  }

  async #need(count: number): Promise<void> {
    if (this.#next + count <= this.#buffer.length) return;
    this.#mustHold(count);
    const position = this.position;
    const target = Buffer.alloc(Math.min(CHUNK_BYTES, this.#sizeBytes - position));
    let filled = 0;
    while (filled < count) {
      const { bytesRead } = await this.#file.read(target, filled, target.length - filled, position + filled);
      if (bytesRead === 0) throw this.damaged('the file was truncated while it was being read');
      filled += bytesRead;
    }
    this.#buffer = target.subarray(0, filled);
    this.#base = position;
    this.#next = 0;
  }
}
