import { isAbsolute, resolve } from 'node:path';

export type ModelSource = HubSource | UrlSource | PathSource | PipSource;

/** A file of a repository on the Hugging Face Hub. */
export interface HubSource {
  kind: 'hub';
  /** `owner/name`. */
  repository: string;
  /** Path in the repository. */
  file: string;
  /** Branch, tag or commit. Defaults to `main`. */
  revision: string;
}

interface UrlSource {
  kind: 'url';
  /** May contain a signed query. Use `describeSource` to display it. */
  url: URL;
}

interface PathSource {
  kind: 'path';
  /** Absolute. */
  path: string;
}

/**
 * A file in the wheel of a Python package. Only the catalog has sources of this kind; `parseSource` has no syntax for
 * them.
 */
export interface PipSource {
  kind: 'pip';
  package: string;
  version: string;
  /** Path of the file in the wheel. */
  member: string;
  /** Size of the wheel, for showing progress and for checking disk space. */
  wheelBytes: number;
}

/** Thrown for a text that is not a valid model source. */
export class SourceError extends Error {
  constructor(text: string, expected: string) {
    super(`"${text}" is not a valid model source: expected ${expected}`);
    this.name = 'SourceError';
  }
}

const FORMS = '`hf:owner/repo/file.gguf[@revision]`, `https://host/file.gguf`, or the path of a .gguf file';
const SEGMENT = /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/;
const FILE_SEGMENT = /^[A-Za-z0-9_][A-Za-z0-9._ +()=-]{0,199}$/;
const REVISION = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$/;
const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]+:/;
const MAX_TEXT = 2048;

/**
 * Parses the source of a model file: `hf:owner/repo/path/file.gguf[@revision]`, an `https://` URL (`http://` only for this
 * machine), or a path, relative to `baseFolder`.
 * @throws SourceError
 */
export function parseSource(text: string, baseFolder: string = process.cwd()): ModelSource {
  if (text.length > MAX_TEXT)
    throw new SourceError(`${text.slice(0, 80)}…`, `at most ${MAX_TEXT} characters`);
  if (text.includes('\0')) throw new SourceError(text.replaceAll('\0', '?'), FORMS);
  if (text.startsWith('hf:')) return parseHub(text);
  if (/^https?:/i.test(text)) return parseUrl(text);
  if (SCHEME.test(text)) throw new SourceError(text, FORMS);
  // `a/b` is more likely an unknown model ID than a path.
  if (!text.endsWith('.gguf') && !/^\.{1,2}\//.test(text) && !isAbsolute(text))
    throw new SourceError(text, FORMS);
  return { kind: 'path', path: resolve(baseFolder, text) };
}

/** Describes a source in one line, without the query of a URL, which may contain secrets. */
export function describeSource(source: ModelSource): string {
  switch (source.kind) {
    case 'hub':
      return `hf:${source.repository}/${source.file}${source.revision === 'main' ? '' : `@${source.revision}`}`;
    case 'url':
      return `${source.url.origin}${source.url.pathname}`;
    case 'path':
      return source.path;
    case 'pip':
      return `the Python package ${source.package} ${source.version} (${source.member})`;
  }
}

/** Whether a host name refers to this machine, where plain `http://` is safe. */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname);
}

function parseHub(text: string): HubSource {
  const body = text.slice('hf:'.length);
  // File names cannot contain "@".
  const at = body.lastIndexOf('@');
  const path = at < 0 ? body : body.slice(0, at);
  const revision = at < 0 ? 'main' : body.slice(at + 1);
  if (!REVISION.test(revision) || revision.split('/').some((part) => part === '' || /^\.+$/.test(part))) {
    throw new SourceError(text, 'a branch, tag or commit after "@"');
  }
  const [owner = '', name = '', ...file] = path.split('/');
  if (!SEGMENT.test(owner) || !SEGMENT.test(name))
    throw new SourceError(text, 'hf:owner/repo/file.gguf[@revision]');
  if (file.length === 0 || file.length > 8 || !file.every((part) => FILE_SEGMENT.test(part))) {
    throw new SourceError(text, 'a file path after hf:owner/repo/');
  }
  if (!path.endsWith('.gguf')) throw new SourceError(text, 'a file whose name ends in .gguf');
  return { kind: 'hub', repository: `${owner}/${name}`, file: file.join('/'), revision };
}

function parseUrl(text: string): UrlSource {
  if (!URL.canParse(text)) throw new SourceError(text, 'a URL such as https://host/file.gguf');
  const url = new URL(text);
  const displayUrl = `${url.origin}${url.pathname}`;
  if (url.username !== '' || url.password !== '')
    throw new SourceError(displayUrl, 'a URL without a user name or password');
  if (url.protocol === 'http:' && !isLoopback(url.hostname)) {
    throw new SourceError(displayUrl, 'https:// (http:// is only allowed for this machine)');
  }
  const segments = url.pathname.split('/').slice(1);
  if (segments.length > 16 || segments.some((part) => part === '' || part.length > 200)) {
    throw new SourceError(displayUrl, 'a path of at most 16 segments, each 1 to 200 characters long');
  }
  if (!url.pathname.endsWith('.gguf') || segments.at(-1) === '.gguf') {
    throw new SourceError(displayUrl, 'the URL of a .gguf file');
  }
  url.hash = '';
  return { kind: 'url', url };
}
