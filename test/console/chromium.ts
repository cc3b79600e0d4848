import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/**
 * Program names of Chromium on Debian, and of Google Chrome. Prefers the headless shell: the same engine, but without the
 * desktop browser, so the tests take about a third less CPU time.
 */
const NAMES = [
  'chromium-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
];

/** Returns the path of Chromium from `CHROMIUM_PATH`, else from the PATH; undefined: not found. */
export function findChromium(): string | undefined {
  const given = process.env.CHROMIUM_PATH;
  if (given !== undefined) return given === '' ? undefined : given;
  const folders = (process.env.PATH ?? '').split(delimiter);
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
