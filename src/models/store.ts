import { readdir, rm, rmdir, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, sep } from 'node:path';
import { tryLock } from '../support/file-lock.ts';
import type { Log } from '../support/log.ts';
import { didYouMean } from '../support/nearest.ts';
import { PROGRAM } from '../support/program-name.ts';
import { fileSize, type FreeBytes } from './disk.ts';
import {
  checkTotalDiskSpace,
  fetchFile,
  hashFile,
  installedRecord,
  createFolder,
  type FetchContext,
  type DownloadTarget,
} from './fetch-file.ts';
import { readGguf } from './gguf.ts';
import { HttpClient, type HttpTimeouts } from './http-client.ts';
import { Layout, partPath, pipFolder, readRecord, recordPath, splitFiles, siblingSource } from './layout.ts';
import { PullError, systemCode } from './errors.ts';
import { ProgressMeter, type OnProgress, type PullProgress } from './progress.ts';
import { CATALOG, findModel } from './catalog.ts';
import { parseSource, SourceError, type ModelSource } from './source.ts';

export interface ModelStoreOptions {
  /** Absolute path of the data directory. Models are in `<home>/models`. */
  home: string;
  log: Log;
  /** Environment variables; `HF_ENDPOINT`, `HF_TOKEN`, the proxy variables and `PATH` are used. */
  env: NodeJS.ProcessEnv;
  /** Folder that relative paths are resolved against. Defaults to the working directory. */
  baseFolder?: string;
  timeouts?: Partial<HttpTimeouts>;
  freeBytes?: FreeBytes;
}

interface PullOptions {
  signal?: AbortSignal;
  onProgress?: OnProgress;
}

/** A model whose files all exist on this machine. */
export interface LocalModel {
  /** Its ID in the catalog; null if it is not in the catalog. */
  id: string | null;
  /** Absolute path of the file, or of the first file of a split model. */
  file: string;
  /** All files, in order. */
  files: readonly string[];
  sizeBytes: number;
  /** SHA-256 of the first file; null for a local path. */
  sha256: string | null;
  source: string;
  /** ISO 8601, UTC; null for a local path. */
  pulledAt: string | null;
}

interface VerificationResult {
  file: string;
  /** Describes what is wrong with the file; null if it is intact. */
  fault: string | null;
}

/**
 * The models folder. Several processes may use the same folder at the same time. The name of a model is its ID in the
 * catalog, a source for `parseSource`, or the path of a file.
 */
export class ModelStore {
  readonly #options: ModelStoreOptions;
  readonly #layout: Layout;
  readonly #pulls = new SharedPulls();

  constructor(options: ModelStoreOptions) {
    this.#options = options;
    this.#layout = new Layout(options.home);
  }

  /**
   * Returns the absolute path of the file of a configured model: the file that `engineFile` names, or else the catalog
   * file for the ID. Returns null if the file must be downloaded first. Does not use the network and does not hash
   * files: it only checks the record and size of a downloaded file, or the header of a local file.
   * @throws PullError `unknown_model`; SourceError; ModelFileError for a local path that cannot be loaded
   */
  async resolve(id: string, engineFile?: string): Promise<string | null> {
    const model = await this.find(engineFile ?? id);
    return model?.file ?? null;
  }

  /**
   * Returns a model of this machine by its name; null if it is not downloaded. Checks the same files and throws the
   * same errors as `resolve`.
   */
  async find(name: string): Promise<LocalModel | null> {
    return await this.#findLocal(this.#resolveName(name));
  }

  /**
   * Returns the path of the first file of a model, which may not be downloaded yet. Returns null for a file outside the
   * models folder, which must not be deleted, and for a name that no longer is a model.
   */
  managedPath(name: string): string | null {
    try {
      const [file] = this.#resolveName(name).files;
      return file !== undefined && this.#isInFolder(file) ? file : null;
    } catch (error) {
      if (error instanceof PullError || error instanceof SourceError) return null;
      throw error;
    }
  }

  /**
   * Downloads all files of a model, unless they are already on this machine. Concurrent pulls of the same file, even in
   * other processes, share one download. When aborted, rejects with the signal's reason and keeps partial downloads.
   * @throws PullError, SourceError, ModelFileError
   */
  async pull(name: string, options: PullOptions = {}): Promise<LocalModel> {
    const model = this.#resolveName(name);
    const local = await this.#findLocal(model);
    if (local !== null) return local;
    const signal = options.signal ?? new AbortController().signal;
    return this.#pulls.join(model.files[0] ?? '', signal, options.onProgress, (shared, onProgress) =>
      this.#fetch(model, shared, onProgress),
    );
  }

  /** Lists the models that are completely downloaded, sorted by path. */
  async list(): Promise<readonly LocalModel[]> {
    const names = await readdir(this.#layout.folder, { recursive: true }).catch((error: unknown) => {
      if (systemCode(error) === 'ENOENT') return [];
      throw error;
    });
    const models: LocalModel[] = [];
    for (const name of names.filter((name) => name.endsWith('.gguf.json')).sort()) {
      const file = join(this.#layout.folder, name.slice(0, -'.json'.length));
      const names = splitFiles(basename(file));
      if (names[0] !== basename(file)) continue;
      const files = names.map((part) => join(dirname(file), part));
      const model = await this.#installed(catalogId(file, this.#layout), files);
      if (model !== null) models.push(model);
    }
    return models;
  }

  /**
   * Deletes the files of a model from the models folder, including unfinished downloads. Resolves to the deleted files.
   * A running service can still use a deleted file; its disk space is freed when the service stops.
   * @throws PullError `busy` while a file is being downloaded; `not_downloaded` if there is nothing to delete
   */
  async remove(name: string): Promise<readonly string[]> {
    const model = this.#resolveName(name);
    const removed: string[] = [];
    for (const file of model.files) {
      if (!this.#isInFolder(file))
        throw new PullError('not_downloaded', `${file} is not in ${this.#layout.folder} and was not removed`);
      if (!(await exists(file)) && !(await exists(recordPath(file))) && !(await exists(partPath(file))))
        continue;
      await createFolder(this.#layout.locksFolder);
      using lock = tryLock(this.#layout.lockPath(file));
      if (lock === null) throw new PullError('busy', `${basename(file)} is being downloaded`);
      for (const path of [file, recordPath(file), partPath(file), recordPath(partPath(file))]) {
        await rm(path, { force: true });
      }
      await rm(pipFolder(file), { recursive: true, force: true });
      removed.push(file);
      await this.#removeEmptyFolders(dirname(file));
    }
    if (removed.length === 0) throw new PullError('not_downloaded', `${name} is not downloaded`);
    return removed;
  }

  /** Hashes the files of a model, or of all models, and compares them with their records. */
  async verify(name: string | null, options: PullOptions = {}): Promise<readonly VerificationResult[]> {
    const signal = options.signal ?? new AbortController().signal;
    const files =
      name === null ? (await this.list()).flatMap((model) => model.files) : this.#resolveName(name).files;
    const results: VerificationResult[] = [];
    for (const file of files) {
      results.push({ file, fault: await this.#findFault(file, signal, options.onProgress ?? (() => {})) });
    }
    return results;
  }

  async #findFault(file: string, signal: AbortSignal, onProgress: OnProgress): Promise<string | null> {
    const record = await readRecord(file);
    if (record === null) return 'no download record: the file was not downloaded by Sluice, or is incomplete';
    const size = await fileSize(file);
    if (size === null) return 'the file is missing';
    if (size !== record.sizeBytes) return `the size is ${size} bytes, expected ${record.sizeBytes}`;
    using meter = new ProgressMeter({ file: basename(file), source: file, onProgress });
    meter.begin('checking', 0, size);
    const sha256 = await hashFile(file, (done) => meter.update(done), signal);
    return sha256 === record.sha256 ? null : `the SHA-256 is ${sha256}, expected ${record.sha256}`;
  }

  async #fetch(model: ResolvedModel, signal: AbortSignal, onProgress: OnProgress): Promise<LocalModel> {
    const { env, log, timeouts, freeBytes } = this.#options;
    await using client = new HttpClient(env, timeouts);
    const context: FetchContext = { layout: this.#layout, client, env, log, signal, onProgress, freeBytes };
    await createFolder(this.#layout.folder);
    await checkTotalDiskSpace(model.targets, context);
    for (const target of model.targets) await fetchFile(target, context);
    const fetched = await this.#findLocal(model);
    if (fetched === null)
      throw new PullError('all_failed', `${model.name} was removed right after it was downloaded`);
    return fetched;
  }

  async #findLocal(model: ResolvedModel): Promise<LocalModel | null> {
    if (model.targets.length > 0) return this.#installed(model.id, model.files);
    const [file = ''] = model.files;
    const info = await readGguf(file);
    return {
      id: null,
      file,
      files: info.files,
      sizeBytes: info.sizeBytes,
      sha256: null,
      source: file,
      pulledAt: null,
    };
  }

  async #installed(id: string | null, files: readonly string[]): Promise<LocalModel | null> {
    const records = (await Promise.all(files.map(installedRecord))).filter((record) => record !== null);
    const [first] = records;
    const [file] = files;
    if (first === undefined || file === undefined || records.length < files.length) return null;
    const sizeBytes = records.reduce((sum, record) => sum + record.sizeBytes, 0);
    return {
      id,
      file,
      files,
      sizeBytes,
      sha256: first.sha256,
      source: first.source,
      pulledAt: first.pulledAt,
    };
  }

  #resolveName(name: string): ResolvedModel {
    return resolveName(name, this.#layout, this.#options.baseFolder);
  }

  #isInFolder(file: string): boolean {
    const path = relative(this.#layout.folder, file);
    return path !== '' && !path.startsWith(`..${sep}`) && !isAbsolute(path);
  }

  async #removeEmptyFolders(from: string): Promise<void> {
    for (let folder = from; this.#isInFolder(folder); folder = dirname(folder)) {
      try {
        await rmdir(folder);
      } catch {
        return; // Not empty.
      }
    }
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (systemCode(error) === 'ENOENT' || systemCode(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/** The model and the files that a name refers to. */
interface ResolvedModel {
  name: string;
  /** Its ID in the catalog; null if it is not in the catalog. */
  id: string | null;
  /** Absolute paths, in order. */
  files: readonly string[];
  /** The files to download; empty for a local path. */
  targets: readonly DownloadTarget[];
}

/**
 * Resolves an ID in the catalog, a source or a path.
 * @throws PullError `unknown_model` if the name looks like an ID, otherwise SourceError
 */
function resolveName(name: string, layout: Layout, baseFolder?: string): ResolvedModel {
  const model = findModel(name);
  if (model !== null) {
    const files = layout.files(model.sources[0]);
    return {
      name,
      id: model.id,
      files,
      targets: createTargets(files, model.sources, model.sha256, model.sizeBytes),
    };
  }
  const source = parseName(name, baseFolder);
  const files = layout.files(source);
  const targets = source.kind === 'path' ? [] : createTargets(files, [source], null, null);
  return { name, id: catalogId(files[0] ?? '', layout), files, targets };
}

/** Returns the catalog ID of a file in the models folder, or null. */
function catalogId(file: string, layout: Layout): string | null {
  return CATALOG.find((model) => layout.files(model.sources[0])[0] === file)?.id ?? null;
}

function createTargets(
  files: readonly string[],
  sources: readonly ModelSource[],
  sha256: string | null,
  sizeBytes: number | null,
): readonly DownloadTarget[] {
  const [only] = files;
  if (files.length === 1 && only !== undefined) return [{ file: only, sources, sha256, sizeBytes }];
  return files.map((file) => ({
    file,
    sources: sources.map((source) => siblingSource(source, basename(file))),
    sha256: null,
    sizeBytes: null,
  }));
}

function parseName(name: string, baseFolder?: string): ModelSource {
  try {
    return parseSource(name, baseFolder);
  } catch (error) {
    if (!(error instanceof SourceError) || !/^[\w.-]+(\/[\w.:-]+)?$/.test(name)) throw error;
    const near = didYouMean(
      name,
      CATALOG.map(({ id }) => id),
    );
    throw new PullError(
      'unknown_model',
      `The model ${name} is not in the catalog.${near} Choose one that \`${PROGRAM} models list --available\` lists, or give the ` +
        'source of the model: hf:owner/repo/file.gguf, https://host/file.gguf or the path of a .gguf file (in the configuration, as `engine.file`).',
      { cause: error },
    );
  }
}

type Work = (signal: AbortSignal, onProgress: OnProgress) => Promise<LocalModel>;

interface Pull {
  result: Promise<LocalModel>;
  abort: AbortController;
  relay: ProgressRelay;
}

interface ProgressRelay {
  /** One per caller. */
  listeners: Set<OnProgress>;
  last: PullProgress | null;
}

/**
 * Combines concurrent pulls of the same key in this process: all callers get the progress and the result. The pull is
 * aborted when all callers have aborted.
 */
class SharedPulls {
  readonly #running = new Map<string, Pull>();

  /** Joins the pull of `key`, or starts it with `work`. Rejects with the signal's reason when aborted. */
  async join(
    key: string,
    signal: AbortSignal,
    onProgress: OnProgress | undefined,
    work: Work,
  ): Promise<LocalModel> {
    signal.throwIfAborted();
    const pull = this.#running.get(key) ?? this.#start(key, work);
    const listener: OnProgress = (progress) => onProgress?.(progress);
    const { listeners, last } = pull.relay;
    listeners.add(listener);
    if (last !== null) listener(last);
    try {
      return await untilAborted(pull.result, signal, async () => {
        // Immediately, because one signal may abort all callers at once.
        listeners.delete(listener);
        if (listeners.size > 0) return;
        // The last caller waits until part files are closed and child processes have ended.
        this.#running.delete(key);
        pull.abort.abort(signal.reason);
        await pull.result.catch(() => {});
      });
    } finally {
      listeners.delete(listener);
    }
  }

  #start(key: string, work: Work): Pull {
    const abort = new AbortController();
    const relay: ProgressRelay = { listeners: new Set(), last: null };
    const result = work(abort.signal, (progress) => {
      relay.last = progress;
      for (const listener of relay.listeners) listener(progress);
    });
    const pull: Pull = { result, abort, relay };
    this.#running.set(key, pull);
    const remove = (): void => {
      if (this.#running.get(key) === pull) this.#running.delete(key);
    };
    result.then(remove, remove);
    return pull;
  }
}

async function untilAborted<T>(
  result: Promise<T>,
  signal: AbortSignal,
  cleanUp: () => Promise<void>,
): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => {
    cleanUp().then(() => reject(signal.reason), reject);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([result, promise]);
  } catch (error) {
    // An aborted pull may fail with another error.
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
