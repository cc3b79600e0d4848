import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** What a Chromium is called on Debian, and what Google's own is. */
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Path of the Chromium that `CHROMIUM_PATH` names, or else of one on the PATH; undefined: there is none. */
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
