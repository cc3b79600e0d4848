import { constants } from 'node:fs';
import { access, chmod, mkdir, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join, parse, resolve } from 'node:path';

/** The data directory cannot be used. The message contains the path, the reason and advice. */
export class HomeError extends Error {
  constructor(home: string, reason: string, cause?: unknown) {
    super(`Cannot use the data directory ${home}: ${reason}. Set SLUICE_HOME to another directory.`, {
      cause,
    });
    this.name = 'HomeError';
  }
}

/** Returns the absolute path of the data directory: `SLUICE_HOME`, or the default of the platform. */
export function homeOf(env: NodeJS.ProcessEnv): string {
  return resolve(env.SLUICE_HOME || defaultHome(env));
}

/** Returns the platform's directory for user data. */
export function defaultHome(env: NodeJS.ProcessEnv, platform: NodeJS.Platform = process.platform): string {
  const user = env.HOME || homedir();
  if (platform === 'darwin') return join(user, 'Library', 'Application Support', 'Sluice');
  // The XDG Base Directory Specification requires relative paths to be ignored.
  const data = env.XDG_DATA_HOME?.startsWith('/') ? env.XDG_DATA_HOME : join(user, '.local', 'share');
  return join(data, 'sluice');
}

/**
 * Creates the data directory if necessary, restricts it to its owner (mode 0700) and checks that it is writable.
 * Rejects with a `HomeError`.
 */
export async function prepareHome(home: string): Promise<void> {
  try {
    await createDirectory(home);
  } catch (error) {
    throw new HomeError(home, `it cannot be created (${reasonOf(error)})`, error);
  }
  const { mode } = await stat(home);
  if ((mode & 0o077) !== 0) {
    // Changing the mode of a shared directory would break other programs.
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

/** Creates a directory and its parents. Does not use the `recursive` option of Node, which never returns in `/proc`. */
async function createDirectory(path: string, parentExists = false): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return;
    if (code !== 'ENOENT' || parentExists) throw error;
    await createDirectory(dirname(path));
    await createDirectory(path, true);
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
