import { constants } from 'node:fs';
import { access, chmod, mkdir, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join, parse, resolve } from 'node:path';

/** The folder of the service cannot be used; the message says which, why, and what to do. */
export class HomeError extends Error {
  constructor(home: string, reason: string, cause?: unknown) {
    super(`Cannot use the data directory ${home}: ${reason}. Set SLUICE_HOME to another directory.`, {
      cause,
    });
    this.name = 'HomeError';
  }
}

/** The service's folder as an absolute path: `SLUICE_HOME`, or where the platform keeps a user's data. */
export function homeOf(env: NodeJS.ProcessEnv): string {
  return resolve(env.SLUICE_HOME || defaultHome(env));
}

/** Where a user's data belong on this platform, when `SLUICE_HOME` does not say otherwise. */
export function defaultHome(env: NodeJS.ProcessEnv, platform: NodeJS.Platform = process.platform): string {
  const user = env.HOME || homedir();
  if (platform === 'darwin') return join(user, 'Library', 'Application Support', 'Sluice');
  // The XDG Base Directory Specification has a relative path ignored.
  const data = env.XDG_DATA_HOME?.startsWith('/') ? env.XDG_DATA_HOME : join(user, '.local', 'share');
  return join(data, 'sluice');
}

/**
 * Makes the folder where it is not there yet, closes it to everyone but its owner (mode 0700), and sees that it can
 * be written. Rejects with a `HomeError`.
 */
export async function prepareHome(home: string): Promise<void> {
  try {
    await makeFolder(home);
  } catch (error) {
    throw new HomeError(home, `it cannot be created (${reasonOf(error)})`, error);
  }
  const { mode } = await stat(home);
  if ((mode & 0o077) !== 0) {
    // Closing a folder that others live in would break more than it protects.
    if ((mode & 0o1000) !== 0 || home === parse(home).root || home === homedir()) {
      throw new HomeError(home, 'it is shared with other programs, and Sluice needs one of its own');
    }
    try {
      await chmod(home, 0o700);
    } catch (error) {
      throw new HomeError(
        home,
        `other users can read it and its permissions cannot be changed (${reasonOf(error)})`,
        error,
      );
    }
  }
  try {
    await access(home, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw new HomeError(home, `it is not writable (${reasonOf(error)})`, error);
  }
}

/** Makes a folder and those above it. Node's `recursive` goes round for ever where none can be made, as in `/proc`. */
async function makeFolder(path: string, parentIsThere = false): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return;
    if (code !== 'ENOENT' || parentIsThere) throw error;
    await makeFolder(dirname(path));
    await makeFolder(path, true);
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = 'code' in error ? String(error.code) : error.message;
  return REASONS.get(code) ?? code;
}

const REASONS: ReadonlyMap<string, string> = new Map([
  ['EACCES', 'permission denied'],
  ['EPERM', 'it belongs to another user'],
  ['EROFS', 'the disk is read-only'],
  ['ENOSPC', 'the disk is full'],
  ['EEXIST', 'a file with this name exists'],
  ['ENOENT', 'directories cannot be created there'],
  ['ENOTDIR', 'part of the path is a file'],
]);
