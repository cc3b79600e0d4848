import { readdir, rm, rmdir, stat } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, relative, sep } from 'node:path';
import { tryLock } from '../file-lock.ts';
import type { Log } from '../log.ts';
import type { FreeBytes } from './disk.ts';
import {
  allMustFit,
  fetchFile,
  hashFile,
  installedRecord,
  makeFolder,
  type FetchTools,
} from './fetch-file.ts';
import { readGguf } from './gguf.ts';
import { HttpClient, type HttpTimes } from './http-client.ts';
import { Layout, partPath, pipFolder, readRecord, recordPath, splitFiles } from './layout.ts';
import { ModelFileError } from './model-file-error.ts';
import { catalogueId, findNamed, type NamedModel } from './resolve-name.ts';
import { ProgressMeter, type OnProgress } from './progress.ts';
import { PullError, systemCode } from './pull-error.ts';
import { SharedPulls } from './shared-pulls.ts';

export interface ModelStoreOptions {
  /** Absolute path of the service's home; models lie in `<home>/models`. */
  home: string;
  log: Log;
  /** `HF_ENDPOINT`, `HF_TOKEN`, the proxy variables and `PATH` are read from it. */
  env: NodeJS.ProcessEnv;
  /** Folder that relative paths of files start from; by default the process's own. */
  baseFolder?: string;
  times?: Partial<HttpTimes>;
  freeBytes?: FreeBytes;
}

export interface PullOptions {
  signal?: AbortSignal;
  onProgress?: OnProgress;
}

/** A model whose files are all here. */
export interface LocalModel {
  /** Its id in the catalogue; null: it is not in it. */
  id: string | null;
  /** Absolute path of its file, or of the first of a split model. */
  file: string;
  /** All its files, in order. */
  files: readonly string[];
  sizeBytes: number;
  /** Of the first file; null: a local path, which nobody summed. */
  sha256: string | null;
  source: string;
  /** ISO 8601, UTC; null: a local path. */
  pulledAt: string | null;
}

export interface Verified {
  file: string;
  /** Null: the file is as it was pulled; else what is wrong with it. */
  fault: string | null;
}

/**
 * The models folder: fetches model files and keeps them. Every method can run beside a service and beside other
 * processes that use the same folder. A model is named by its catalogue id, by its source as `parseSource` reads
 * it, or by the path of its file.
 */
export class ModelStore {
  readonly #options: ModelStoreOptions;
  readonly #layout: Layout;
  readonly #pulls = new SharedPulls<LocalModel>();

  constructor(options: ModelStoreOptions) {
    this.#options = options;
    this.#layout = new Layout(options.home);
  }

  /**
   * Absolute path of the file that a configured model generates with, when it is here: `engineFile` as the
   * configuration has it, else the catalogue's file of the id. Null: it has to be pulled first. No network, and no
   * hashing: what was pulled is known by its record and size; the header of a local path is read.
   * @throws PullError `unknown_model`; SourceError; ModelFileError for a local path that cannot be served
   */
  async resolve(id: string, engineFile?: string): Promise<string | null> {
    const model = await this.#here(this.#find(engineFile ?? id));
    return model?.file ?? null;
  }

  /**
   * Fetches a model, all parts of a split one, and resolves when it can be loaded; at once when it is here. Two
   * at once for the same file, in one process or in two, make one download. Rejects with the signal's reason
   * when aborted, leaving what can be resumed.
   * @throws PullError, SourceError, ModelFileError
   */
  async pull(name: string, options: PullOptions = {}): Promise<LocalModel> {
    const model = this.#find(name);
    const here = await this.#here(model);
    if (here !== null) return here;
    const signal = options.signal ?? new AbortController().signal;
    return this.#pulls.join(model.files[0] ?? '', signal, options.onProgress, (shared, onProgress) =>
      this.#fetch(model, shared, onProgress),
    );
  }

  /** The models that are here, by path. Files whose download has not ended are not among them. */
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
      const model = await this.#installed(catalogueId(file, this.#layout), files);
      if (model !== null) models.push(model);
    }
    return models;
  }

  /**
   * Removes a model's files from the models folder, unfinished ones too. A service that has the file open keeps
   * it until it stops: the system frees the bytes only then. Resolves to the files that were removed.
   * @throws PullError `busy` while it is being fetched, `not_here`
   */
  async remove(name: string): Promise<readonly string[]> {
    const model = this.#find(name);
    const removed: string[] = [];
    for (const file of model.files) {
      if (!this.#isOurs(file))
        throw new PullError('not_here', `${file} is not in ${this.#layout.folder} and was not removed`);
      if (!(await exists(file)) && !(await exists(recordPath(file))) && !(await exists(partPath(file))))
        continue;
      using lock = tryLock(this.#layout.lockOf(file));
      if (lock === null) throw new PullError('busy', `${basename(file)} is being downloaded`);
      for (const path of [file, recordPath(file), partPath(file), recordPath(partPath(file))]) {
        await rm(path, { force: true });
      }
      await rm(pipFolder(file), { recursive: true, force: true });
      removed.push(file);
      await this.#dropEmptyFolders(dirname(file));
    }
    if (removed.length === 0) throw new PullError('not_here', `${name} is not downloaded`);
    return removed;
  }

  /** Hashes the files of one model, or of all, and compares them with what was pulled. */
  async verify(name: string | null, options: PullOptions = {}): Promise<readonly Verified[]> {
    const signal = options.signal ?? new AbortController().signal;
    const files = name === null ? await this.#recorded() : this.#find(name).files;
    const results: Verified[] = [];
    for (const file of files) {
      results.push({ file, fault: await this.#fault(file, signal, options.onProgress ?? (() => {})) });
    }
    return results;
  }

  async #fault(file: string, signal: AbortSignal, onProgress: OnProgress): Promise<string | null> {
    const record = await readRecord(file);
    if (record === null) return 'no download record: the file was not downloaded by Sluice, or is incomplete';
    const size = await stat(file)
      .then((at) => at.size)
      .catch(() => null);
    if (size === null) return 'the file is missing';
    if (size !== record.sizeBytes) return `the size is ${size} bytes, expected ${record.sizeBytes}`;
    using meter = new ProgressMeter({ file: basename(file), source: file, onProgress });
    meter.begin('checking', 0, size);
    const sha256 = await hashFile(file, (done) => meter.update(done), signal);
    return sha256 === record.sha256 ? null : `the SHA-256 is ${sha256}, expected ${record.sha256}`;
  }

  async #fetch(model: NamedModel, signal: AbortSignal, onProgress: OnProgress): Promise<LocalModel> {
    const { env, log, times, freeBytes } = this.#options;
    await using client = new HttpClient(env, times);
    const tools: FetchTools = { layout: this.#layout, client, env, log, signal, onProgress, freeBytes };
    await makeFolder(this.#layout.folder);
    await allMustFit(model.wanted, tools);
    for (const wanted of model.wanted) await fetchFile(wanted, tools);
    const fetched = await this.#here(model);
    if (fetched === null)
      throw new PullError('all_failed', `${model.name} was removed right after it was downloaded`);
    return fetched;
  }

  async #here(model: NamedModel): Promise<LocalModel | null> {
    if (model.wanted.length > 0) return this.#installed(model.id, model.files);
    const [file = ''] = model.files;
    if (!(await exists(file))) throw new ModelFileError('missing', file, 'no such file');
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
    const records = await Promise.all(files.map(installedRecord));
    const [first] = records;
    const [file] = files;
    if (first === undefined || first === null || file === undefined) return null;
    let sizeBytes = 0;
    for (const record of records) {
      if (record === null) return null;
      sizeBytes += record.sizeBytes;
    }
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

  #find(name: string): NamedModel {
    return findNamed(name, this.#layout, this.#options.baseFolder);
  }

  async #recorded(): Promise<readonly string[]> {
    return (await this.list()).flatMap((model) => model.files);
  }

  #isOurs(file: string): boolean {
    const path = relative(this.#layout.folder, file);
    return path !== '' && !path.startsWith(`..${sep}`) && !isAbsolute(path);
  }

  async #dropEmptyFolders(from: string): Promise<void> {
    for (let folder = from; this.#isOurs(folder); folder = dirname(folder)) {
      try {
        await rmdir(folder);
      } catch {
        // Not empty: other models lie in it.
        return;
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
