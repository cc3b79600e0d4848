import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { mustFit, type FreeBytes } from './disk.ts';
import type { Credentials, HttpAnswer, HttpClient } from './http-client.ts';
import type { PartFile, PartState } from './part-file.ts';
import type { ProgressMeter } from './progress.ts';
import { PullError, reasonOf } from './pull-error.ts';

/** A file to fetch, and what is known of it beforehand. */
export interface DownloadJob {
  url: URL;
  credentials: Credentials | null;
  /** Lower-case hexadecimal; null: nobody told. */
  sha256: string | null;
  sizeBytes: number | null;
}

export interface DownloadTools {
  client: HttpClient;
  meter: ProgressMeter;
  signal: AbortSignal;
  freeBytes?: FreeBytes | undefined;
}

/** Tries in a row that bring no byte before a broken download is given up, and the pause that doubles between them. */
const MAX_BARREN_TRIES = 4;
const FIRST_PAUSE_MS = 500;
const MAX_TRIES = 100;

/**
 * Fetches a file into its part file and checks length and SHA-256. Goes on where an earlier try ended when the
 * bytes are of the same file (same sum, or the server confirms its validator through `If-Range`), and takes a
 * cut connection up again. A source that does not even begin to send fails at once, for the next one to be tried.
 * Resolves to the SHA-256 of the whole file. Rejects with the signal's reason when aborted; the part stays.
 * @throws PullError `source_failed`, `disk_full` or `disk_failed`
 */
export async function download(job: DownloadJob, part: PartFile, tools: DownloadTools): Promise<string> {
  await prepare(job, part, tools);
  let barren = 0;
  let answered = false;
  for (let tries = 1; part.sizeBytes === 0 || part.sizeBytes !== totalOf(job, part); tries++) {
    const before = part.sizeBytes;
    try {
      await fetchRest(job, part, tools);
      break;
    } catch (error) {
      tools.signal.throwIfAborted();
      if (!(error instanceof CutOff)) throw error;
      answered ||= error.answered;
      barren = part.sizeBytes > before ? 0 : barren + 1;
      if (!answered || barren >= MAX_BARREN_TRIES || tries >= MAX_TRIES) {
        throw new PullError('source_failed', error.message, { cause: error });
      }
    }
    if (barren > 0) await delay(FIRST_PAUSE_MS * 2 ** (barren - 1), undefined, { signal: tools.signal });
  }
  return check(job, part);
}

/** The source stopped, or was not there: trying again may help. */
class CutOff extends Error {
  /** Whether it had begun to send the file. */
  readonly answered: boolean;

  constructor(message: string, answered: boolean, options?: ErrorOptions) {
    super(message, options);
    this.name = 'CutOff';
    this.answered = answered;
  }
}

/** Keeps an earlier try's bytes when they can be of the same file, and hashes them; else begins anew. */
async function prepare(job: DownloadJob, part: PartFile, { meter, signal }: DownloadTools): Promise<void> {
  const { identity } = part.state;
  const known =
    job.sha256 === null
      ? identity !== null && !identity.startsWith('sha256:')
      : identity === `sha256:${job.sha256}`;
  if (part.sizeBytes === 0 || !known || part.sizeBytes > (job.sizeBytes ?? Number.POSITIVE_INFINITY)) {
    await part.restart({
      identity: job.sha256 === null ? null : `sha256:${job.sha256}`,
      totalBytes: job.sizeBytes,
    });
    return;
  }
  meter.begin('checking', 0, part.sizeBytes);
  await part.rehash((done) => meter.update(done), signal);
}

async function fetchRest(job: DownloadJob, part: PartFile, tools: DownloadTools): Promise<void> {
  const { client, meter, signal } = tools;
  const answer = await client
    .get(job.url, rangeHeaders(part), job.credentials, signal)
    .catch((error: unknown) => {
      signal.throwIfAborted();
      throw error instanceof PullError ? new CutOff(error.message, false, { cause: error }) : error;
    });
  try {
    await accept(answer, job, part);
    const total = totalOf(job, part);
    if (total !== null) await mustFit(dirname(part.path), total - part.sizeBytes, tools.freeBytes);
    meter.begin('downloading', part.sizeBytes, total);
    await readBody(answer, part, total, meter);
  } catch (error) {
    // A body that is destroyed unread says so by an error event, which nobody waits for.
    answer.body.on('error', () => {}).destroy();
    throw error;
  }
}

function rangeHeaders(part: PartFile): Record<string, string> {
  // Bytes that nothing identifies cannot be joined to: the whole file is asked for again.
  if (part.sizeBytes === 0 || part.state.identity === null) return {};
  const range = { range: `bytes=${part.sizeBytes}-` };
  const validator = /^(?:etag|modified):(.*)$/s.exec(part.state.identity)?.[1];
  return validator === undefined ? range : { ...range, 'if-range': validator };
}

/** Makes the part file fit what the server is about to send. */
async function accept(answer: HttpAnswer, job: DownloadJob, part: PartFile): Promise<void> {
  const { status, headers, url } = answer;
  if (status === 206) {
    const [, start, total] = /^bytes (\d+)-\d+\/(\d+|\*)$/.exec(headers['content-range'] ?? '') ?? [];
    if (Number(start) !== part.sizeBytes || start === undefined) {
      throw new PullError('source_failed', `${url.host} sent a different byte range than requested`);
    }
    if (total !== '*' && totalOf(job, part) !== null && Number(total) !== totalOf(job, part)) {
      await part.restart({ ...part.state, totalBytes: job.sizeBytes });
      throw new CutOff(`${url.host} now has a file of a different size`, true);
    }
    return;
  }
  if (status === 416 && part.sizeBytes > 0) {
    await part.restart({ ...part.state, totalBytes: job.sizeBytes });
    throw new CutOff(`${url.host} now has a file that is shorter than the partial download`, true);
  }
  if (status === 200) {
    await part.restart(stateOf(answer, job));
    return;
  }
  if (status >= 500 || status === 429) throw new CutOff(statusReason(answer), false);
  throw new PullError('source_failed', statusReason(answer));
}

function stateOf({ headers, url }: HttpAnswer, job: DownloadJob): PartState {
  const length = Number(headers['content-length'] ?? Number.NaN);
  const told = Number.isSafeInteger(length) ? length : null;
  if (told !== null && job.sizeBytes !== null && told !== job.sizeBytes) {
    throw new PullError('source_failed', `${url.host} announced ${told} bytes; expected ${job.sizeBytes}`);
  }
  const totalBytes = job.sizeBytes ?? told;
  if (job.sha256 !== null) return { identity: `sha256:${job.sha256}`, totalBytes };
  // A weak ETag does not promise the same bytes, so nothing may be joined to them (RFC 9110, 13.1.5).
  const etag = headers['etag'];
  if (etag !== undefined && etag.startsWith('"')) return { identity: `etag:${etag}`, totalBytes };
  const modified = headers['last-modified'];
  return { identity: modified === undefined ? null : `modified:${modified}`, totalBytes };
}

async function readBody(
  answer: HttpAnswer,
  part: PartFile,
  total: number | null,
  meter: ProgressMeter,
): Promise<void> {
  try {
    for await (const chunk of answer.body) {
      // The body is a stream of bytes: no encoding was set on it.
      await part.append(chunk as Uint8Array);
      if (total !== null && part.sizeBytes > total) {
        await part.restart({ ...part.state, totalBytes: total });
        throw new PullError('source_failed', `${answer.url.host} sent more than the expected ${total} bytes`);
      }
      meter.update(part.sizeBytes);
    }
  } catch (error) {
    if (error instanceof PullError) throw error;
    throw new CutOff(
      `the connection to ${answer.url.host} was lost after ${part.sizeBytes} bytes: ${reasonOf(error)}`,
      true,
      {
        cause: error,
      },
    );
  }
  if (total !== null && part.sizeBytes < total) {
    throw new CutOff(
      `the connection to ${answer.url.host} was lost after ${part.sizeBytes} of ${total} bytes`,
      true,
    );
  }
}

async function check(job: DownloadJob, part: PartFile): Promise<string> {
  const sha256 = await part.finish();
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

function statusReason({ status, url }: HttpAnswer): string {
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
