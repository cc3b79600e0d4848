import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Longest path of a Unix socket that every system takes, in bytes. */
const MAX_SOCKET_PATH = 100;

/** The folder for sockets, without those that dead processes left. In the system's own where the home is too deep. */
export async function runFolder(home: string): Promise<string> {
  const inHome = join(home, 'run');
  const user = process.getuid?.() ?? 0;
  const folder = inHome.length + 32 <= MAX_SOCKET_PATH ? inHome : join(tmpdir(), `sluice-${user}`);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const { uid } = await stat(folder);
  if (uid !== user)
    throw new Error(
      `The directory ${folder} belongs to another user. Remove it, or set SLUICE_HOME to a shorter path.`,
    );
  for (const name of await readdir(folder)) {
    const pid = Number(/^(\d+)-/.exec(name)?.[1] ?? NaN);
    if (Number.isInteger(pid) && !lives(pid)) await rm(join(folder, name), { force: true });
  }
  return folder;
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
