import { createHash, type Hash } from 'node:crypto';
import { open, readFile, rm, writeFile, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { diskError, type FreeBytes } from './disk.ts';
import { PullError, reasonOf } from './pull-error.ts';

/** State of an unfinished download, to decide whether it can be resumed. */
export interface PartState {
  /** `sha256:<hex>`, `etag:<ETag>` or `modified:<Last-Modified>`; null if unknown. */
  identity: string | null;
  totalBytes: number | null;
}

const READ_BYTES = 1 << 20;
const MAX_STATE_BYTES = 4096;

/**
 * An unfinished download: the bytes in `<file>.part` and the state in `<file>.part.json`. Hashes the bytes as it writes
 * them. Only the owner of the model file's lock may use it. Disposing keeps both files.
 */
export class PartFile {
  readonly path: string;
  readonly #file: FileHandle;
  readonly #freeBytes: FreeBytes | undefined;
  #hash: Hash = createHash('sha256');
  #sizeBytes = 0;
  #state: PartState;

  private constructor(path: string, file: FileHandle, state: PartState, freeBytes?: FreeBytes) {
    this.path = path;
    this.#file = file;
    this.#state = state;
    this.#freeBytes = freeBytes;
  }

  static async open(path: string, freeBytes?: FreeBytes): Promise<PartFile> {
    const file = await open(path, 'a+', 0o600).then(async (created) => {
      await created.close();
      return open(path, 'r+');
    });
    const part = new PartFile(path, file, await readState(path), freeBytes);
    part.#sizeBytes = (await file.stat()).size;
    return part;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get state(): PartState {
    return this.#state;
  }

  /** Hashes the existing bytes, so that more can be appended. */
  async rehash(onBytes: (done: number) => void, signal: AbortSignal): Promise<void> {
    this.#hash = createHash('sha256');
    const buffer = Buffer.alloc(READ_BYTES);
    let done = 0;
    while (done < this.#sizeBytes) {
      signal.throwIfAborted();
      const { bytesRead } = await this.#file.read(buffer, 0, buffer.length, done);
      if (bytesRead === 0) break;
      this.#hash.update(buffer.subarray(0, bytesRead));
      done += bytesRead;
      onBytes(done);
    }
    this.#sizeBytes = done;
  }

  /** Discards the bytes and starts a new file. */
  async restart(state: PartState): Promise<void> {
    await this.#write(async () => {
      await this.#file.truncate(0);
      await writeFile(statePath(this.path), JSON.stringify(state), { mode: 0o600 });
    });
    this.#hash = createHash('sha256');
    this.#sizeBytes = 0;
    this.#state = state;
  }

  /**
   * Appends bytes. If writing fails, keeps the bytes that were already written.
   * @throws PullError `disk_full` or `disk_failed`
   */
  async append(chunk: Uint8Array): Promise<void> {
    await this.#write(async () => {
      for (let done = 0; done < chunk.length;) {
        const { bytesWritten } = await this.#file.write(chunk, done, chunk.length - done, this.#sizeBytes);
        this.#hash.update(chunk.subarray(done, done + bytesWritten));
        this.#sizeBytes += bytesWritten;
        done += bytesWritten;
      }
    });
  }

  /** Makes the bytes durable. Resolves to their SHA-256 in lowercase hexadecimal. */
  async sync(): Promise<string> {
    await this.#write(() => this.#file.sync());
    return this.#hash.copy().digest('hex');
  }

  /** Deletes both files. */
  async discard(): Promise<void> {
    await rm(this.path, { force: true });
    await rm(statePath(this.path), { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }

  async #write(write: () => Promise<unknown>): Promise<void> {
    try {
      await write();
    } catch (error) {
      const converted = await diskError(error, dirname(this.path), this.#freeBytes);
      if (converted instanceof PullError) throw converted;
      throw new PullError('disk_failed', `cannot write ${this.path}: ${reasonOf(error)}`, {
        cause: error,
      });
    }
  }
}

/** Deletes the state of a finished download. */
export async function removePartState(path: string): Promise<void> {
  await rm(statePath(path), { force: true });
}

function statePath(path: string): string {
  return `${path}.json`;
}

async function readState(path: string): Promise<PartState> {
  const text = await readFile(statePath(path), 'utf8').catch(() => '');
  try {
    const value: unknown = text.length > MAX_STATE_BYTES ? null : JSON.parse(text);
    if (typeof value === 'object' && value !== null && 'identity' in value && 'totalBytes' in value) {
      const { identity, totalBytes } = value;
      return {
        identity: typeof identity === 'string' ? identity : null,
        totalBytes: typeof totalBytes === 'number' ? totalBytes : null,
      };
    }
  } catch {
    // Ignore the invalid state. The download starts over.
  }
  return { identity: null, totalBytes: null };
}
