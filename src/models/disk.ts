import { open, stat, statfs } from 'node:fs/promises';
import { PullError, systemCode } from './errors.ts';

/** Space to leave free for the database and the log. */
const RESERVE_BYTES = 64 * 1024 * 1024;

/** Returns the bytes that are free for this user on the disk that contains `folder`. */
export type FreeBytes = (folder: string) => Promise<number>;

async function freeDiskBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** Checks that the disk has room for a download. @throws PullError `disk_full` */
export async function checkDiskSpace(
  folder: string,
  neededBytes: number,
  freeBytes: FreeBytes = freeDiskBytes,
): Promise<void> {
  const free = await freeBytes(folder);
  if (free >= neededBytes + RESERVE_BYTES) return;
  throw new PullError(
    'disk_full',
    `not enough disk space: the download needs ${megabytes(neededBytes)} plus a reserve of ${megabytes(RESERVE_BYTES)}; ` +
      `${folder} has ${megabytes(free)} free`,
  );
}

/** Converts an error for a full disk or an exhausted quota into a `PullError`. Returns other errors unchanged. */
export async function diskError(
  error: unknown,
  folder: string,
  freeBytes: FreeBytes = freeDiskBytes,
): Promise<unknown> {
  const code = systemCode(error);
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error;
  return new PullError(
    'disk_full',
    `the disk of ${folder} is full (${megabytes(await freeBytes(folder))} free). Free some space and try again; the download resumes where it stopped`,
    { cause: error },
  );
}

/** Resolves to the size of a file, or null if it cannot be read. */
export async function fileSize(path: string): Promise<number | null> {
  return stat(path).then(
    ({ size }) => size,
    () => null,
  );
}

/** Makes new and renamed files in `folder` durable. */
export async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6).toLocaleString('en')} MB`;
}
