import { open, statfs } from 'node:fs/promises';
import { PullError, systemCode } from './pull-error.ts';

/** What is left free for the database and the log beside a model. */
const RESERVE_BYTES = 64 * 1024 * 1024;

/** Free bytes of the disk that holds `folder`, as far as this user may use them. */
export type FreeBytes = (folder: string) => Promise<number>;

async function freeDiskBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** @throws PullError `disk_full` with both numbers, before a byte is written. */
export async function mustFit(
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

/** A write's error in our words where the disk is full or the quota used up; any other as it is. */
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

/** Makes a rename or a new name in `folder` survive a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1e6).toLocaleString('en')} MB`;
}
