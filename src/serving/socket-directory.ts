import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Maximum length of a Unix socket's path, in bytes. Every system supports this length. */
const MAX_SOCKET_PATH = 100;

/** Maximum length of `/` and the name of a socket, in bytes. */
const MAX_NAME = 32;

/** The service has no directory for sockets. The message has advice. */
export class SocketDirectoryError extends Error {
  override readonly name = 'SocketDirectoryError';
}

/**
 * Returns the directory for sockets, and deletes the sockets of dead processes in it. The directory is in the
 * temporary directory (the system's by default) if the path of the data directory is too long. Rejects with a `SocketDirectoryError`.
 */
export async function socketDirectory(dataDirectory: string, temporary = tmpdir()): Promise<string> {
  const preferred = join(dataDirectory, 'run');
  const user = process.getuid?.() ?? 0;
  const directory = fits(preferred) ? preferred : join(temporary, `sluice-${user}`);
  if (!fits(directory)) {
    throw new SocketDirectoryError(
      `The path ${directory} is too long for sockets. Set SLUICE_HOME or TMPDIR to a shorter path.`,
    );
  }
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const { uid } = await stat(directory);
  if (uid !== user)
    throw new SocketDirectoryError(
      `The directory ${directory} belongs to another user. Remove it, or set SLUICE_HOME to a shorter path.`,
    );
  for (const name of await readdir(directory)) {
    const pid = Number(/^(\d+)-/.exec(name)?.[1] ?? NaN);
    if (Number.isInteger(pid) && !isRunning(pid)) await rm(join(directory, name), { force: true });
  }
  return directory;
}

/** Whether the paths of sockets in this directory are short enough. */
function fits(directory: string): boolean {
  return Buffer.byteLength(directory) + MAX_NAME <= MAX_SOCKET_PATH;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
