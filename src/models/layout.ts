import { open, readFile, rename } from 'node:fs/promises';
import { createHash } from 'node:crypto';
import { basename, dirname, join, relative } from 'node:path';
import { syncFolder } from './disk.ts';
import type { ModelSource } from './source.ts';

/**
 * Where model files lie in `<home>/models`:
 * ```
 * hub/<owner>/<repo>[@<revision>]/<file>.gguf        the model
 * hub/<owner>/<repo>[@<revision>]/<file>.gguf.json   where it came from, its sum, size and time
 * hub/<owner>/<repo>[@<revision>]/<file>.gguf.part   an unfinished download
 * url/<host>/<path>.gguf                             likewise
 * .locks/                                            one empty file for each that was ever fetched
 * ```
 * A package's file has the place of the Hub file it is a copy of: its catalogue entry names that one first.
 */
export class Layout {
  readonly folder: string;

  constructor(home: string) {
    this.folder = join(home, 'models');
  }

  get locks(): string {
    return join(this.folder, '.locks');
  }

  /** Absolute paths of all files of the model, in order: one, or the parts of a split model. */
  files(source: ModelSource): readonly string[] {
    const first = this.#place(source);
    return splitFiles(basename(first)).map((name) => join(dirname(first), name));
  }

  lockOf(file: string): string {
    return join(
      this.locks,
      createHash('sha256').update(relative(this.folder, file)).digest('hex').slice(0, 32),
    );
  }

  #place(source: ModelSource): string {
    switch (source.kind) {
      case 'hub': {
        const revision = source.revision === 'main' ? '' : `@${encodeURIComponent(source.revision)}`;
        return join(this.folder, 'hub', `${source.repository}${revision}`, source.file);
      }
      case 'url':
        return join(this.folder, 'url', source.url.host.replace(':', '_'), ...source.url.pathname.split('/'));
      case 'pip':
        return join(this.folder, 'pip', `${source.package}-${source.version}`, source.member);
      case 'path':
        return source.path;
    }
  }
}

/** The same source's file of another name, for the parts of a split model. */
export function sibling(source: ModelSource, name: string): ModelSource {
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

/** What is known of a model file that was fetched whole; beside it as `<file>.json`. */
export interface FileRecord {
  /** As `describeSource` writes it. */
  source: string;
  /** Lower-case hexadecimal. */
  sha256: string;
  sizeBytes: number;
  /** ISO 8601, UTC. */
  pulledAt: string;
}

const MAX_RECORD_BYTES = 16_384;

/** The record beside a model file; null: none, or not readable as one. */
export async function readRecord(file: string): Promise<FileRecord | null> {
  const text = await readFile(recordPath(file), 'utf8').catch(() => '');
  try {
    const value: unknown = text.length > MAX_RECORD_BYTES ? null : JSON.parse(text);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}

/** Writes the record whole or not at all, and makes it durable. */
export async function writeRecord(file: string, record: FileRecord): Promise<void> {
  const path = recordPath(file);
  const fresh = `${path}.new`;
  {
    await using handle = await open(fresh, 'w', 0o600);
    await handle.writeFile(`${JSON.stringify(record, null, 2)}\n`);
    await handle.sync();
  }
  await rename(fresh, path);
  await syncFolder(dirname(path));
}

export function recordPath(file: string): string {
  return `${file}.json`;
}

export function partPath(file: string): string {
  return `${file}.part`;
}

/** Where pip works while it fetches the file; gone when it has ended, unless this process was killed. */
export function pipFolder(file: string): string {
  return `${file}.pip`;
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

/** Most files that one model may be split into. */
const MAX_FILES = 1000;

/**
 * The names of all files of the model that `name` belongs to, in order: `name` alone where it is not split,
 * else `…-00001-of-00003.gguf` and its siblings, whichever of them was given.
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
