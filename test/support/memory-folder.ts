import { existsSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';

/**
 * Returns a directory in memory for databases, or the one for temporary files if little memory is free. Each
 * commit waits for a disk, and ext4 needs up to 1 ms of CPU time to create a file in the minutes after many were deleted.
 * Programs may not run from it.
 */
export function memoryFolder(): string {
  const memory = '/dev/shm';
  if (!existsSync(memory)) return tmpdir();
  const { bavail, bsize } = statfsSync(memory);
  // In a container, its limit counts, of which the processes of the tests need 4 GiB.
  return bavail * bsize > 2 ** 31 && process.availableMemory() > 6 * 2 ** 30 ? memory : tmpdir();
}
