import { createHash } from 'node:crypto';
import {
  constants,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..', '..');
const FOLDER = join(ROOT, '.cache', 'sqlite');

let template: Promise<string> | null = null;

/**
 * Creates a migrated SQLite database in a data directory, as a copy of one in `.cache/`, because the migrations of a new
 * database take 40 ms of CPU time.
 */
export async function createSqlite(home: string): Promise<void> {
  template ??= openTemplate();
  await copyFile(await template, join(home, 'sluice.db'), constants.COPYFILE_FICLONE);
}

/** Returns the path of the template, which is created if the code of the database has changed. */
async function openTemplate(): Promise<string> {
  const hash = createHash('sha256');
  for (const file of globSync(join(ROOT, 'src/database/**/*.ts')).sort()) hash.update(readFileSync(file));
  const path = join(FOLDER, `${hash.digest('hex').slice(0, 16)}.db`);
  if (existsSync(path)) return path;
  mkdirSync(FOLDER, { recursive: true });
  const home = mkdtempSync(join(FOLDER, 'new-'));
  const { openDatabase } = await import('../../src/database/database.ts');
  await (await openDatabase({ home, url: null }))[Symbol.asyncDispose]();
  // Other test files may do the same at this time.
  renameSync(join(home, 'sluice.db'), path);
  rmSync(home, { recursive: true });
  return path;
}
