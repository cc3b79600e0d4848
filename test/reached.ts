import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';

export const ROOT = join(import.meta.dirname, '..');

/** The folders with code of tests. */
const FOLDERS = /^(test|bench|torture|tools)\//;

/**
 * Returns a file and all files that it reaches through the names of files in its text, which it imports or starts.
 * Contains only the code of tests, not of the service. Paths are relative to the root, with slashes.
 */
export function reachedFrom(file: string): ReadonlySet<string> {
  const reached = new Set([file]);
  // The loop also visits files that it adds.
  for (const from of reached) for (const to of read(from).named) reached.add(to);
  return reached;
}

/** Returns the text of a file of the tests. */
export function textOf(file: string): string {
  return read(file).text;
}

interface SourceFile {
  text: string;
  /** The files of tests that the text names by their path relative to it: `'./fixture.ts'`, `'child.ts'`. */
  named: readonly string[];
}

const files = new Map<string, SourceFile>();

function read(file: string): SourceFile {
  const known = files.get(file);
  if (known !== undefined) return known;
  const text = readFileSync(join(ROOT, file), 'utf8');
  const named = [...text.matchAll(/'([^'\s]+\.ts)'/g)]
    .map(([, path = '']) => relative(ROOT, resolve(ROOT, dirname(file), path)).replaceAll('\\', '/'))
    .filter((path) => FOLDERS.test(path) && existsSync(join(ROOT, path)));
  const source = { text, named };
  files.set(file, source);
  return source;
}
