import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { SentOutage } from './store.ts';

/**
 * Writes an alert that was sent without the database to the data directory. A restart continues with it, so that its
 * receivers learn when it is resolved. Null deletes it.
 */
export async function writeOutage(home: string, outage: SentOutage | null): Promise<void> {
  const file = pathIn(home);
  if (outage === null) return await rm(file, { force: true });
  await writeFile(`${file}.new`, JSON.stringify(outage), { mode: 0o600 });
  await rename(`${file}.new`, file);
}

/** Returns the alert; null: there is none. */
export async function readOutage(home: string): Promise<SentOutage | null> {
  try {
    // Only `writeOutage` writes this file.
    return JSON.parse(await readFile(pathIn(home), 'utf8')) as SentOutage;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
}

function pathIn(home: string): string {
  return join(home, 'outage.json');
}
