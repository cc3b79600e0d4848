import { globSync } from 'node:fs';
import { ROOT } from './reached.ts';

/** The folders whose tests `npm test` leaves to commands of their own, with the reason. `npm run test:all` runs all. */
export const PARTS = {
  /** The pages of the console, in Chromium. */
  console: 'test/console',
  /** Generation with llama.cpp. */
  model: 'test/model',
  /** Client libraries, packaging, deployment, an upgrade, and faults under load. */
  outside: 'test/outside',
} as const;

export type Part = keyof typeof PARTS;

/** Files of these folders that `npm test` runs too: a new user's way through the console, and an answer of a real model. */
export const SMOKE: readonly string[] = [
  'test/console/first-run.test.ts',
  'test/model/default-settings.test.ts',
];

/** Returns the test files of `npm test` (`default`), of a part, or all. Paths are relative to the root, with slashes. */
export function filesOf(part: Part | 'default' | 'all'): string[] {
  const all = globSync('test/**/*.test.ts', { cwd: ROOT })
    .map((file) => file.replaceAll('\\', '/'))
    .toSorted();
  if (part === 'all') return all;
  const isIn = (file: string, folder: string) => file.startsWith(`${folder}/`);
  if (part !== 'default') return all.filter((file) => isIn(file, PARTS[part]));
  return all.filter(
    (file) => SMOKE.includes(file) || !Object.values(PARTS).some((folder) => isIn(file, folder)),
  );
}
