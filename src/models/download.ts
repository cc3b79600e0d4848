import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { createHash, type Hash } from 'node:crypto';
import { open, readFile, rm, writeFile, type FileHandle } from 'node:fs/promises';
import { checkDiskSpace, type FreeBytes, diskError } from './disk.ts';
import type { Credentials, HttpResponse, HttpClient } from './http-client.ts';
import { recordPath } from './layout.ts';
import type { ProgressMeter } from './progress.ts';
import { PullError, reasonOf } from './errors.ts';

/** A file to download. */
export interface DownloadJob {
  url: URL;
  credentials: Credentials | null;
  /** Expected SHA-256, in lowercase hexadecimal; null if unknown. */
  sha256: string | null;
  /** Expected size; null if unknown. */
  sizeBytes: number | null;
}

interface DownloadContext {
  client: HttpClient;
  meter: ProgressMeter;
  signal: AbortSignal;
  freeBytes?: FreeBytes | undefined;
}

/** Maximum attempts in a row without progress. */
const MAX_FAILED_ATTEMPTS = 4;
/** Pause after the first attempt without progress. Doubles after each further attempt without progress. */
const FIRST_PAUSE_MS = 500;
const MAX_ATTEMPTS = 100;

/**
 * Downloads a file into its part file and checks its size and SHA-256. Resumes an earlier download if the expected
 * SHA-256 is the same. If none is expected, resumes if the server confirms with `If-Range` that the file has not
 * changed. Also resumes after a lost connection. Fails immediately if the source has never served the file, so that the
 * caller can try the next source. Resolves to the SHA-256 of the file. When aborted, rejects with the signal's reason
 * and keeps the part file.
 * @throws PullError `source_failed`, `disk_full` or `disk_failed`
 */
export async function download(job: DownloadJob, part: PartFile, context: DownloadContext): Promise<string> {
  await prepare(job, part, context);
  let failed = 0;
  let hasResponded = false;
  for (let attempts = 1; part.sizeBytes === 0 || part.sizeBytes !== totalOf(job, part); attempts++) {
    const before = part.sizeBytes;
    try {
      await fetchRest(job, part, context);
      break;
    } catch (error) {
      context.signal.throwIfAborted();
      if (!(error instanceof RetryableError)) throw error;
      hasResponded ||= error.hasResponded;
      failed = part.sizeBytes > before ? 0 : failed + 1;
      if (!hasResponded || failed >= MAX_FAILED_ATTEMPTS || attempts >= MAX_ATTEMPTS) {
        throw new PullError('source_failed', error.message, { cause: error });
      }
    }
    if (failed > 0) await delay(FIRST_PAUSE_MS * 2 ** (failed - 1), undefined, { signal: context.signal });
  }
  return checkHash(job, part);
}

/** A failure after which retrying may help. */
class RetryableError extends Error {
  /** Whether the source serves the file: it has sent data, or has reported a different size. */
  readonly hasResponded: boolean;

  constructor(message: string, hasResponded: boolean, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RetryableError';
    this.hasResponded = hasResponded;
  }
}

/** Hashes the bytes of an earlier download if they may belong to the same file. Otherwise, discards them. */
async function prepare(job: DownloadJob, part: PartFile, { meter, signal }: DownloadContext): Promise<void> {
  const { identity } = part.state;
  const mayResume =
    job.sha256 === null
      ? identity !== null && !identity.startsWith('sha256:')
      : identity === `sha256:${job.sha256}`;
  if (part.sizeBytes === 0 || !mayResume || part.sizeBytes > (job.sizeBytes ?? Number.POSITIVE_INFINITY)) {
    await part.restart({
      identity: job.sha256 === null ? null : `sha256:${job.sha256}`,
      totalBytes: job.sizeBytes,
    });
    return;
  }
  meter.begin('checking', 0, part.sizeBytes);
  await part.rehash((done) => meter.update(done), signal);
}

async function fetchRest(job: DownloadJob, part: PartFile, context: DownloadContext): Promise<void> {
  const { client, meter, signal } = context;
  const response = await client
    .get(job.url, rangeHeaders(part), job.credentials, signal)
    .catch((error: unknown) => {
      signal.throwIfAborted();
      throw error instanceof PullError ? new RetryableError(error.message, false, { cause: error }) : error;
    });
  try {
    await preparePart(response, job, part);
    const total = totalOf(job, part);
    if (total !== null) await checkDiskSpace(dirname(part.path), total - part.sizeBytes, context.freeBytes);
    meter.begin('downloading', part.sizeBytes, total);
    await readBody(response, part, total, meter);
  } catch (error) {
    // Destroying an unread body emits an error event.
    response.body.on('error', () => {}).destroy();
    throw error;
  }
}

function rangeHeaders(part: PartFile): Record<string, string> {
  // A download without an identity cannot be resumed.
  if (part.sizeBytes === 0 || part.state.identity === null) return {};
  const range = { range: `bytes=${part.sizeBytes}-` };
  const validator = /^(?:etag|modified):(.*)$/s.exec(part.state.identity)?.[1];
  return validator === undefined ? range : { ...range, 'if-range': validator };
}

/** Checks the response headers, and empties the part file if the body is the whole file. */
async function preparePart(response: HttpResponse, job: DownloadJob, part: PartFile): Promise<void> {
  const { status, url } = response;
  // A response to a request for the rest of the file.
  if (part.sizeBytes > 0 && (status === 206 || status === 416)) {
    const fault = resumeFault(response, job, part);
    if (fault === null) return;
    await part.restart({ ...part.state, totalBytes: job.sizeBytes });
    throw new RetryableError(`${url.host} ${fault}`, true);
  }
  if (status === 200) {
    await part.restart(stateOf(response, job));
    return;
  }
  if (status >= 500 || status === 429) throw new RetryableError(statusReason(response), false);
  throw new PullError('source_failed', statusReason(response));
}

/** Returns why a response does not continue the partial download; null: it does. */
function resumeFault({ status, headers }: HttpResponse, job: DownloadJob, part: PartFile): string | null {
  if (status === 416) return 'now has a file that is shorter than the partial download';
  const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers['content-range'] ?? '') ?? [];
  if (start === undefined || Number(start) !== part.sizeBytes)
    return 'sent a different byte range than requested';
  const expectedTotal = totalOf(job, part);
  if (total !== '*' && expectedTotal !== null && Number(total) !== expectedTotal) {
    return 'now has a file of a different size';
  }
  // Some servers ignore `If-Range`.
  const { etag = null } = headers;
  const { identity } = part.state;
  const isOther = etag !== null && identity?.startsWith('etag:') === true && identity !== `etag:${etag}`;
  return isOther ? 'now has a different file' : null;
}

function stateOf({ headers, url }: HttpResponse, job: DownloadJob): PartState {
  const length = Number(headers['content-length'] ?? Number.NaN);
  const announced = Number.isSafeInteger(length) ? length : null;
  if (announced !== null && job.sizeBytes !== null && announced !== job.sizeBytes) {
    throw new PullError(
      'source_failed',
      `${url.host} announced ${announced} bytes; expected ${job.sizeBytes}`,
    );
  }
  const totalBytes = job.sizeBytes ?? announced;
  if (job.sha256 !== null) return { identity: `sha256:${job.sha256}`, totalBytes };
  // Weak ETags do not guarantee the same bytes (RFC 9110, 13.1.5).
  const etag = headers['etag'];
  if (etag !== undefined && etag.startsWith('"')) return { identity: `etag:${etag}`, totalBytes };
  const modified = headers['last-modified'];
  return { identity: modified === undefined ? null : `modified:${modified}`, totalBytes };
}

async function readBody(
  response: HttpResponse,
  part: PartFile,
  total: number | null,
  meter: ProgressMeter,
): Promise<void> {
  try {
    for await (const chunk of response.body) {
      await part.append(chunk as Uint8Array); // The stream has no encoding.
      if (total !== null && part.sizeBytes > total) {
        await part.restart({ ...part.state, totalBytes: total });
        throw new PullError(
          'source_failed',
          `${response.url.host} sent more than the expected ${total} bytes`,
        );
      }
      meter.update(part.sizeBytes);
    }
  } catch (error) {
    if (error instanceof PullError) throw error;
    throw new RetryableError(
      `the connection to ${response.url.host} was lost after ${part.sizeBytes} bytes: ${reasonOf(error)}`,
      true,
      {
        cause: error,
      },
    );
  }
  if (total !== null && part.sizeBytes < total) {
    throw new RetryableError(
      `the connection to ${response.url.host} was lost after ${part.sizeBytes} of ${total} bytes`,
      true,
    );
  }
}

async function checkHash(job: DownloadJob, part: PartFile): Promise<string> {
  const sha256 = await part.sync();
  if (job.sha256 === null || sha256 === job.sha256) return sha256;
  await part.discard();
  throw new PullError(
    'source_failed',
    `${job.url.host} sent a file with the wrong checksum: SHA-256 is ${sha256}, expected ${job.sha256}`,
  );
}

function totalOf(job: DownloadJob, part: PartFile): number | null {
  return job.sizeBytes ?? part.state.totalBytes;
}

function statusReason({ status, url }: HttpResponse): string {
  switch (status) {
    case 401:
    case 403:
      return `${url.host} refused access (${status}): the file does not exist, or is private or gated and requires a token (\`HF_TOKEN\` for the Hub)`;
    case 404:
      return `${url.host} has no such file (404)`;
    default:
      return `${url.host} responded with status ${status}`;
  }
}

/** State of an unfinished download, to decide whether it can be resumed. */
interface PartState {
  /** `sha256:<hex>`, `etag:<ETag>` or `modified:<Last-Modified>`; null if unknown. */
  identity: string | null;
  totalBytes: number | null;
}

const READ_BYTES = 1 << 20;

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
      await writeFile(recordPath(this.path), JSON.stringify(state), { mode: 0o600 });
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
    await rm(recordPath(this.path), { force: true });
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

async function readState(path: string): Promise<PartState> {
  try {
    const state = JSON.parse(await readFile(recordPath(path), 'utf8')) as Partial<PartState>; // Written by `restart`.
    const { identity = null, totalBytes = null } = state;
    return { identity, totalBytes };
  } catch {
    // There is none, or the process ended while it wrote it. The download starts over.
    return { identity: null, totalBytes: null };
  }
}
