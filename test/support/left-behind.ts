import { globSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { memoryFolder } from './memory-folder.ts';

const DAY_MS = 86_400_000;

/** Removes what a run of the tests that was killed more than a day ago left behind, and templates of older databases. */
export function removeLeftBehind(cache: string, now = Date.now()): void {
  const folders = [...new Set([memoryFolder(), tmpdir()])];
  const patterns = [
    ...folders.flatMap((folder) => [`${folder}/sluice-test-*`, `${folder}/sluice-postgres-*`]),
    `${cache}/sqlite/*`,
  ];
  for (const path of globSync(patterns)) {
    const changed = statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? now;
    if (now - changed > DAY_MS) rmSync(path, { recursive: true, force: true });
  }
}
