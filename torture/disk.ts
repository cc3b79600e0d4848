import { execFileSync } from 'node:child_process';
import { mkdirSync, statfsSync } from 'node:fs';

/** Programs that every Linux has. */
const [MOUNT, UNMOUNT, LIMIT] = ['mount', 'umount', 'prlimit'] as const;

/** The disk of a SQLite home, which can be made full. */
export interface Disk extends Disposable {
  /** Leaves so many bytes free, or takes all writes beyond them from the process. */
  fill(leavingBytes: number, pid: number | null): void;
  /** Makes room again. */
  free(pid: number | null): void;
}

/** Where the user may mount: a small filesystem of its own at `path`. Elsewhere a bound on the files of a process. */
export function openDisk(path: string): Disk {
  mkdirSync(path, { recursive: true, mode: 0o700 });
  const mount = (...options: string[]) => execFileSync(MOUNT, [...options, path], { stdio: 'ignore' });
  try {
    mount('-t', 'tmpfs', '-o', `size=${ROOMY_BYTES},mode=700`, 'tmpfs');
  } catch {
    return new BoundedFiles();
  }
  return {
    fill(leavingBytes) {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const { blocks, bfree, bsize } = statfsSync(path);
        try {
          return void mount('-o', `remount,size=${(blocks - bfree) * bsize + leavingBytes}`);
        } catch {
          // More was written meanwhile than is to be left.
        }
      }
    },
    free() {
      mount('-o', `remount,size=${ROOMY_BYTES}`);
    },
    // Lazily: a process that was killed a moment ago may still have its files there.
    [Symbol.dispose]: () => execFileSync(UNMOUNT, ['--lazy', path]),
  };
}

/** How often a disk is tried to be made full while others write to it. */
const ATTEMPTS = 20;

/** More than the longest run writes. */
const ROOMY_BYTES = 2 ** 30;

/** Node ignores SIGXFSZ, so that a write beyond the bound fails as it does on a full disk, with another number. */
class BoundedFiles implements Disk {
  fill(leavingBytes: number, pid: number | null): void {
    this.#bound(pid, String(leavingBytes));
  }

  free(pid: number | null): void {
    this.#bound(pid, 'unlimited');
  }

  [Symbol.dispose](): void {}

  #bound(pid: number | null, bytes: string): void {
    if (pid === null) return;
    try {
      execFileSync(LIMIT, ['--pid', String(pid), `--fsize=${bytes}:`], { stdio: 'ignore' });
    } catch {
      // It has ended meanwhile, and the next has no bound.
    }
  }
}
