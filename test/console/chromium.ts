import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import type { LaunchOptions } from 'playwright-core';

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

/** How to start Chromium. */
export function launchOptions(): LaunchOptions {
  return {
    executablePath: findChromium(),
    // Needed as root, and in containers with little shared memory.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--font-render-hinting=none'],
  };
}

/**
 * Starts a Chromium for all test files of a run, which connect to its URL. Ends at the latest with this process.
 */
export async function startChromium(): Promise<{ url: string } & AsyncDisposable> {
  const { chromium } = await import('playwright-core');
  const server = await chromium.launchServer({
    ...launchOptions(),
    host: '127.0.0.1',
    // The caller handles signals.
    handleSIGINT: false,
    handleSIGTERM: false,
    handleSIGHUP: false,
  });
  const onClose = () => {
    console.error('The Chromium of this run has ended. The files that used it fail; others start their own.');
  };
  server.on('close', onClose);
  return {
    url: server.wsEndpoint(),
    [Symbol.asyncDispose]: () => {
      server.off('close', onClose);
      return server.close();
    },
  };
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
