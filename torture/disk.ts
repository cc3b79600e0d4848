import { execFileSync } from 'node:child_process';
import { mkdirSync, statfsSync } from 'node:fs';

/** Standard programs on Linux. */
const [MOUNT, UNMOUNT, LIMIT] = ['mount', 'umount', 'prlimit'] as const;

/** The disk of a SQLite data directory. */
export interface Disk extends Disposable {
  /** Leaves this many bytes free, or limits the size of files that the process writes to this many bytes. */
  fill(leavingBytes: number, pid: number | null): void;
  /** Frees the space again. */
  free(pid: number | null): void;
}

/** Mounts a small filesystem at `path`, or limits the file size of a process if mounting is not permitted. */
export function openDisk(path: string): Disk {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const mount = (...options: string[]) => execFileSync(MOUNT, [...options, path], { stdio: 'ignore' });
  try {
    mount('-t', 'tmpfs', '-o', `size=${ROOMY_BYTES},mode=700`, 'tmpfs');
  } catch {
    return new FileSizeLimit();
  }
  return {
    fill(leavingBytes) {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const { blocks, bfree, bsize } = statfsSync(path);
        try {
          return void mount('-o', `remount,size=${(blocks - bfree) * bsize + leavingBytes}`);
        } catch {
          // More than `leavingBytes` was written in the meantime.
        }
      }
    },
    free() {
      mount('-o', `remount,size=${ROOMY_BYTES}`);
    },
    // A process that was just killed may still have open files.
    [Symbol.dispose]: () => execFileSync(UNMOUNT, ['--lazy', path]),
  };
}

/** Maximum number of attempts to fill the disk while it is written to. */
const ATTEMPTS = 20;

/** Bytes. More than the longest run writes. */
const ROOMY_BYTES = 2 ** 30;

/** Node ignores SIGXFSZ, so writes beyond the limit fail like on a full disk, with a different error number. */
class FileSizeLimit implements Disk {
  fill(leavingBytes: number, pid: number | null): void {
    this.#limit(pid, String(leavingBytes));
  }

  free(pid: number | null): void {
    this.#limit(pid, 'unlimited');
  }

  [Symbol.dispose](): void {}

  #limit(pid: number | null, bytes: string): void {
    if (pid === null) return;
    try {
      execFileSync(LIMIT, ['--pid', String(pid), `--fsize=${bytes}:`], { stdio: 'ignore' });
    } catch {
      // The process has ended.
    }
  }
}
