/**
 * Preloaded into the process of each test file. Appends its duration and its CPU time, with that of its child processes, to
 * the file that `SLUICE_TEST_DURATIONS` names.
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

const [, file = ''] = process.argv;
const report = process.env.SLUICE_TEST_DURATIONS;
const root = process.cwd();

// Processes that a test forks, and its threads, load this module too.
if (isMainThread && report !== undefined && /(\.test|\/pure-files)\.ts$/.test(file)) {
  process.on('exit', () => {
    const measured: Measured = {
      file: relative(root, file).replaceAll('\\', '/'),
      wallMs: Math.round(performance.now()),
      cpuMs: cpuMs(),
    };
    appendFileSync(report, `${JSON.stringify(measured)}\n`);
  });
}

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
