import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { checkDiskSpace, type FreeBytes } from './disk.ts';
import type { Credentials, HttpResponse, HttpClient } from './http-client.ts';
import type { PartFile, PartState } from './part-file.ts';
import type { ProgressMeter } from './progress.ts';
import { PullError, reasonOf } from './pull-error.ts';

/** A file to download. */
export interface DownloadJob {
  url: URL;
  credentials: Credentials | null;
  /** Expected SHA-256, in lowercase hexadecimal; null if unknown. */
  sha256: string | null;
  /** Expected size; null if unknown. */
  sizeBytes: number | null;
}

export interface DownloadContext {
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
