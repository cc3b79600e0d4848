import { open, readFile, rename } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import { basename, dirname, join, relative } from 'node:path';
import { syncFolder } from './disk.ts';
import type { ModelSource } from './source.ts';

/**
 * Paths in the models folder, `<data directory>/models`:
 * ```
 * hub/<owner>/<repo>[@<revision>]/<file>.gguf        the model
 * hub/<owner>/<repo>[@<revision>]/<file>.gguf.json   its record: source, SHA-256, size and download time
 * hub/<owner>/<repo>[@<revision>]/<file>.gguf.part   an unfinished download
 * url/<host>[@<hash of the query>]/<path>.gguf       the same for URLs
 * .locks/                                            one empty file per downloaded file
 * ```
 * A file that was extracted from a Python package is stored at the path of the same file on the Hub, because the Hub is
 * the first source of its catalog entry.
 */
export class Layout {
  readonly folder: string;

  constructor(home: string) {
    this.folder = join(home, 'models');
  }

  get locksFolder(): string {
    return join(this.folder, '.locks');
  }

  /** Absolute paths of the files of a model, in order: one, or all files of a split model. */
  files(source: ModelSource): readonly string[] {
    const first = this.#path(source);
    return splitFiles(basename(first)).map((name) => join(dirname(first), name));
  }

  lockPath(file: string): string {
    return join(this.locksFolder, shortHash(relative(this.folder, file)));
  }

  #path(source: ModelSource): string {
    switch (source.kind) {
      case 'hub': {
        const revision = source.revision === 'main' ? '' : `@${encodeURIComponent(source.revision)}`;
        return join(this.folder, 'hub', `${source.repository}${revision}`, source.file);
      }
      case 'url': {
        const { host, pathname, search } = source.url;
        // Hashed, because a query may contain secrets. It may also select the file, so it is never ignored.
        const query = search === '' ? '' : `@${shortHash(search)}`;
        return join(this.folder, 'url', `${host.replace(':', '_')}${query}`, ...pathname.split('/'));
      }
      case 'pip':
        return join(this.folder, 'pip', `${source.package}-${source.version}`, source.member);
      case 'path':
        return source.path;
    }
  }
}

/** Returns the source of another file of a split model. */
export function siblingSource(source: ModelSource, name: string): ModelSource {
  switch (source.kind) {
    case 'hub':
      return { ...source, file: withName(source.file, name) };
    case 'url':
      return { ...source, url: new URL(withName(source.url.pathname, name) + source.url.search, source.url) };
    case 'pip':
      return { ...source, member: withName(source.member, name) };
    case 'path':
      return { ...source, path: join(dirname(source.path), name) };
  }
}

/** Record of a downloaded model file, in `<file>.json`. */
export interface FileRecord {
  /** From `describeSource`. */
  source: string;
  /** In lowercase hexadecimal. */
  sha256: string;
  sizeBytes: number;
  /** ISO 8601, UTC. */
  pulledAt: string;
}

const MAX_RECORD_BYTES = 16_384;

/** Reads the record of a model file. Returns null if there is none or it is invalid. */
export async function readRecord(file: string): Promise<FileRecord | null> {
  const text = await readFile(recordPath(file), 'utf8').catch(() => '');
  try {
    const value: unknown = text.length > MAX_RECORD_BYTES ? null : JSON.parse(text);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}

/** Writes the record atomically and durably. */
export async function writeRecord(file: string, record: FileRecord): Promise<void> {
  const path = recordPath(file);
  const temporary = `${path}.new`;
  {
    await using handle = await open(temporary, 'w', 0o600);
    await handle.writeFile(`${JSON.stringify(record, null, 2)}\n`);
    await handle.sync();
  }
  await rename(temporary, path);
  await syncFolder(dirname(path));
}

/** Returns the path of the record of a model file, or of the state of an unfinished download. */
export function recordPath(file: string): string {
  return `${file}.json`;
}

export function partPath(file: string): string {
  return `${file}.part`;
}

/** Returns the folder that pip works in. It is deleted after the download, unless this process is killed. */
export function pipFolder(file: string): string {
  return `${file}.pip`;
}

/** Returns 128 bits of a SHA-256, in hexadecimal. */
function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}

function isRecord(value: unknown): value is FileRecord {
  return (
    typeof value === 'object' &&
    value !== null &&
    'source' in value &&
    typeof value.source === 'string' &&
    'sha256' in value &&
    typeof value.sha256 === 'string' &&
    'sizeBytes' in value &&
    typeof value.sizeBytes === 'number' &&
    'pulledAt' in value &&
    typeof value.pulledAt === 'string'
  );
}

function withName(path: string, name: string): string {
  return path.slice(0, path.lastIndexOf('/') + 1) + name;
}

const SPLIT_NAME = /^(.+)-(\d{5})-of-(\d{5})\.gguf$/;

const MAX_FILES = 1000;

/**
 * Returns the names of all files of a split model, in order, given the name of any of them. Returns only `name` if it
 * is not the name of a split file.
 */
export function splitFiles(name: string): readonly string[] {
  const [, stem, number, count] = SPLIT_NAME.exec(name) ?? [];
  const files = Number(count);
  if (stem === undefined || files < 1 || files > MAX_FILES || Number(number) < 1 || Number(number) > files) {
    return [name];
  }
  return Array.from(
    { length: files },
    (_, index) => `${stem}-${String(index + 1).padStart(5, '0')}-of-${count}.gguf`,
  );
}
