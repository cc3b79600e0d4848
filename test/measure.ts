/**
 * Preloaded into the processes of test files. Appends the duration and the CPU time of a file, with that of its child
 * processes, to the file that `SLUICE_TEST_DURATIONS` names.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { relative } from 'node:path';
import { isMainThread } from 'node:worker_threads';

/** A line of the file. */
export interface Measured {
  /** Relative to the root, with slashes. */
  file: string;
  wallMs: number;
  /** Null: not measured on this system. */
  cpuMs: number | null;
}

const [, main = ''] = process.argv;
const report = process.env.SLUICE_TEST_DURATIONS;
const root = process.cwd();

let measuredMs = { wall: 0, cpu: 0 };

/** Reports the time since the last report, or since the process started, as that of this file. */
export function measure(file: string): void {
  if (report === undefined) return;
  const wall = performance.now();
  const cpu = cpuMs();
  const measured: Measured = {
    file: relative(root, file).replaceAll('\\', '/'),
    wallMs: Math.round(wall - measuredMs.wall),
    cpuMs: cpu === null ? null : cpu - measuredMs.cpu,
  };
  measuredMs = { wall, cpu: cpu ?? 0 };
  appendFileSync(report, `${JSON.stringify(measured)}\n`);
}

// Processes that a test forks, and its threads, load this module too. In a process that runs several files, `run-files.ts`
// measures each.
if (isMainThread && main.endsWith('.test.ts')) process.on('exit', () => measure(main));

/** Returns the CPU time of this process and of its child processes that have ended. Linux counts both. */
function cpuMs(): number | null {
  const stat = '/proc/self/stat';
  if (!existsSync(stat)) return null;
  // After the name, which can contain spaces: utime, stime, cutime and cstime are the 14th to 17th field (proc(5)).
  const fields = readFileSync(stat, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
    .slice(11, 15);
  // The unit of the kernel's interface is 10 ms.
  return fields.reduce((sum, ticks) => sum + 10 * Number(ticks), 0);
}
