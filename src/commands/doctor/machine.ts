import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { formatBytes } from '../progress-bar.ts';
import type { Finding } from './finding.ts';

/** `checkMemory` gives a note below this memory. The service and the default model need slightly less. */
const LOW_MEMORY_BYTES = 805_306_368;

/** Reports the Node version, and checks the cores and the memory, including the limits of a container. */
export function checkMachine(): Finding[] {
  return [checkRuntime(), checkCores(), checkMemory()];
}

function checkRuntime(): Finding {
  return {
    subject: 'runtime',
    // `main.ts` refuses older versions.
    status: 'good',
    found: `Node ${process.versions.node} on ${process.platform}-${process.arch}`,
    advice: null,
  };
}

function checkCores(): Finding {
  const logical = cpus().length;
  const physical = physicalCores(read('/proc/cpuinfo'));
  const quota = cpuQuota(readLimit);
  const usable = Math.min(availableParallelism(), quota ?? Infinity);
  const parts = [
    `${logical} logical`,
    ...(physical === null ? [] : [`${physical} physical`]),
    ...(quota === null ? [] : [`cgroup quota ${quota}`]),
    `${usable} usable`,
  ];
  const few = usable < 2;
  return {
    subject: 'cores',
    status: few ? 'note' : 'good',
    found: parts.join(', '),
    advice: few
      ? 'The engine and the service share one core. Use at least two for better performance.'
      : null,
  };
}

function checkMemory(): Finding {
  const limit = memoryLimit(readLimit);
  const free = process.availableMemory();
  const parts = [
    `${formatBytes(free)} available of ${formatBytes(totalmem())}`,
    ...(limit === null ? [] : [`cgroup limit ${formatBytes(limit)}`]),
  ];
  const little = free < LOW_MEMORY_BYTES;
  return {
    subject: 'memory',
    status: little ? 'note' : 'good',
    found: parts.join(', '),
    advice: little
      ? 'A model may not fit. Lower engine.slots or engine.contextTokens to use less memory.'
      : null,
  };
}

/**
 * Counts the physical cores in `/proc/cpuinfo`. Returns null if the file does not list them, as on some Arm machines.
 */
export function physicalCores(cpuinfo: string | null): number | null {
  const ids = new Set<string>();
  let socket = '0';
  for (const line of cpuinfo?.split('\n') ?? []) {
    const [name = '', value = ''] = line.split(':').map((part) => part.trim());
    if (name === 'physical id') socket = value;
    if (name === 'core id') ids.add(`${socket}/${value}`);
  }
  return ids.size === 0 ? null : ids.size;
}

/** Reads a file of this process's control group, from cgroup v2 or from a cgroup v1 controller. */
export type ReadLimit = (version: 1 | 2, controller: string, file: string) => string | null;

/** Returns the CPU quota of the control group in cores, which can be fractional. Returns null if there is no limit. */
export function cpuQuota(readLimit: ReadLimit): number | null {
  const [quota = 'max', period = ''] = readLimit(2, 'cpu', 'cpu.max')?.trim().split(' ') ?? [
    readLimit(1, 'cpu', 'cpu.cfs_quota_us')?.trim(),
    readLimit(1, 'cpu', 'cpu.cfs_period_us')?.trim(),
  ];
  const cores = Number(quota) / Number(period);
  return Number.isFinite(cores) && cores > 0 ? Math.round(cores * 100) / 100 : null;
}

/** cgroup v1 represents "no limit" as a number near 2^63. */
const NO_LIMIT = 2 ** 60;

/** Returns the memory limit of the control group in bytes, or null if there is none. */
export function memoryLimit(readLimit: ReadLimit): number | null {
  const text = readLimit(2, 'memory', 'memory.max') ?? readLimit(1, 'memory', 'memory.limit_in_bytes');
  const bytes = text === null ? Number.NaN : Number(text);
  return Number.isFinite(bytes) && bytes < NO_LIMIT ? bytes : null;
}

/** Tries the path in `/proc/self/cgroup` first. In a container, the files are at the root of the mount instead. */
const readLimit: ReadLimit = (version, controller, file) => {
  const lines = read('/proc/self/cgroup')?.split('\n') ?? [];
  const group = lines
    .map((line) => line.split(':'))
    .find(([, names = '']) => (version === 2 ? names === '' : names.split(',').includes(controller)));
  const root = version === 2 ? '/sys/fs/cgroup' : `/sys/fs/cgroup/${controller}`;
  return read(join(root, group?.[2] ?? '', file)) ?? read(join(root, file));
};

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
