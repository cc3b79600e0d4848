import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, freemem, totalmem } from 'node:os';
import { join } from 'node:path';
import { readableBytes, type Finding } from './finding.ts';

const LEAST_NODE = 24;
/** The default model with eight slots of 4096 tokens wants somewhat less. */
const LITTLE_MEMORY = 1_610_612_736;

/** The runtime, the cores and the memory, and what a container leaves of them. */
export function lookAtMachine(): Finding[] {
  return [runtime(), cores(), memory()];
}

function runtime(): Finding {
  const old = Number(process.versions.node.split('.')[0]) < LEAST_NODE;
  return {
    subject: 'runtime',
    status: old ? 'fault' : 'good',
    found: `Node ${process.versions.node} on ${process.platform}-${process.arch}`,
    advice: old
      ? `Sluice needs Node ${LEAST_NODE} or newer. \`npm ci\` installs one that npm scripts use.`
      : null,
  };
}

function cores(): Finding {
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
    advice: few ? 'The engine and the service share one core. Use at least two for better speed.' : null,
  };
}

function memory(): Finding {
  const limit = memoryLimit(readLimit);
  const free = process.availableMemory();
  const parts = [
    `${readableBytes(free)} available`,
    `${readableBytes(freemem())} unused of ${readableBytes(totalmem())}`,
    ...(limit === null ? [] : [`cgroup limit ${readableBytes(limit)}`]),
  ];
  const little = free < LITTLE_MEMORY;
  return {
    subject: 'memory',
    status: little ? 'note' : 'good',
    found: parts.join(', '),
    advice: little
      ? 'A model may not fit. Lower engine.slots or engine.contextTokens to use less memory.'
      : null,
  };
}

/** Distinct cores of `/proc/cpuinfo`; null where the text does not tell, as outside Linux and on some Arm machines. */
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

/** Reads a limit's file in the folder of this process's control group: of v2, or of a controller of v1. */
export type ReadLimit = (version: 1 | 2, controller: string, file: string) => string | null;

/** Cores that the control group allows, as a number that need not be whole; null: no limit. */
export function cpuQuota(readLimit: ReadLimit): number | null {
  const [quota = 'max', period = ''] = readLimit(2, 'cpu', 'cpu.max')?.trim().split(' ') ?? [
    readLimit(1, 'cpu', 'cpu.cfs_quota_us')?.trim(),
    readLimit(1, 'cpu', 'cpu.cfs_period_us')?.trim(),
  ];
  const cores = Number(quota) / Number(period);
  return Number.isFinite(cores) && cores > 0 ? Math.round(cores * 100) / 100 : null;
}

/** v1 writes "no limit" as a number near 2^63. */
const NO_LIMIT = 2 ** 60;

/** Bytes that the control group allows; null: no limit. */
export function memoryLimit(readLimit: ReadLimit): number | null {
  const text = readLimit(2, 'memory', 'memory.max') ?? readLimit(1, 'memory', 'memory.limit_in_bytes');
  const bytes = text === null ? Number.NaN : Number(text);
  return Number.isFinite(bytes) && bytes < NO_LIMIT ? bytes : null;
}

/** Within a container the group's files are at the root of the mount, whatever the path in `/proc/self/cgroup`. */
const readLimit: ReadLimit = (version, controller, file) => {
  const lines = read('/proc/self/cgroup')?.split('\n') ?? [];
  const own = lines
    .map((line) => line.split(':'))
    .find(([, names = '']) => (version === 2 ? names === '' : names.split(',').includes(controller)));
  const root = version === 2 ? '/sys/fs/cgroup' : `/sys/fs/cgroup/${controller}`;
  return read(join(root, own?.[2] ?? '', file)) ?? read(join(root, file));
};

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
