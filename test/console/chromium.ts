import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** Program names of Chromium on Debian, and of Google Chrome. */
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Returns the path of Chromium from `CHROMIUM_PATH`, else from the PATH; undefined: not found. */
export function findChromium(): string | undefined {
  const given = process.env.CHROMIUM_PATH;
  if (given !== undefined) return given === '' ? undefined : given;
  const folders = (process.env.PATH ?? '').split(delimiter);
  return folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
