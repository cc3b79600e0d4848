import { createHash, type Hash } from 'node:crypto';
import { open, readFile, rm, writeFile, type FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { diskError, type FreeBytes } from './disk.ts';
import { PullError, reasonOf } from './pull-error.ts';

/** What an interrupted download wrote down, so that the next one knows whether its bytes are of the same file. */
export interface PartState {
  /** `sha256:<hex>`, `etag:<ETag>` or `modified:<Last-Modified>`; null: nothing identifies the bytes. */
  identity: string | null;
  totalBytes: number | null;
}

const READ_BYTES = 1 << 20;
const MAX_STATE_BYTES = 4096;

/**
 * The bytes of a download so far, in `<file>.part`, with what identifies them in `<file>.part.json` beside it;
 * hashes as it writes. One writer at a time: whoever holds the file's lock. Disposing closes it and leaves both
 * files for the next try.
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

  /** Hashes what an earlier try left, so that new bytes can follow it. */
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

  /** Throws away the bytes and begins a file of this identity. */
  async restart(state: PartState): Promise<void> {
    await this.#written(async () => {
      await this.#file.truncate(0);
      await writeFile(statePath(this.path), JSON.stringify(state), { mode: 0o600 });
    });
    this.#hash = createHash('sha256');
    this.#sizeBytes = 0;
    this.#state = state;
  }

  /** @throws PullError `disk_full` or `disk_failed`; bytes already written stay. */
  async append(chunk: Uint8Array): Promise<void> {
    await this.#written(async () => {
      for (let done = 0; done < chunk.length;) {
        const { bytesWritten } = await this.#file.write(chunk, done, chunk.length - done, this.#sizeBytes);
        this.#hash.update(chunk.subarray(done, done + bytesWritten));
        this.#sizeBytes += bytesWritten;
        done += bytesWritten;
      }
    });
  }

  /** Makes the bytes durable and tells their SHA-256 in lower-case hexadecimal. */
  async finish(): Promise<string> {
    await this.#written(() => this.#file.sync());
    return this.#hash.copy().digest('hex');
  }

  /** Removes the bytes and what is known of them. */
  async discard(): Promise<void> {
    await rm(this.path, { force: true });
    await rm(statePath(this.path), { force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file.close();
  }

  async #written(write: () => Promise<unknown>): Promise<void> {
    try {
      await write();
    } catch (error) {
      const known = await diskError(error, dirname(this.path), this.#freeBytes);
      if (known instanceof PullError) throw known;
      throw new PullError('disk_failed', `cannot write ${this.path}: ${reasonOf(error)}`, {
        cause: error,
      });
    }
  }
}

/** Removes what describes a part file that has become a whole one. */
export async function forgetPart(path: string): Promise<void> {
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
    // Unreadable means unknown: the download begins anew.
  }
  return { identity: null, totalBytes: null };
}
