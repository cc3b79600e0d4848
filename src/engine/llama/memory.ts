import { readFileSync } from 'node:fs';
import { freemem, totalmem } from 'node:os';
import { dirname, join } from 'node:path';

/** What a model needs to be served, in bytes. */
export interface MemoryNeed {
  /** The model file, all parts. */
  fileBytes: number;
  /** Keys and values: slots x tokens a slot x bytes a token. */
  kvBytes: number;
  /** The process, its buffers and its samplers. */
  overheadBytes: number;
}

/** What is there for it. */
export interface MemoryAvailable {
  bytes: number;
  /** What sets the bound. */
  limit: 'machine' | 'cgroup';
}

/** The model does not fit; the message has the numbers and what to change. Starting again does not help. */
export class NotEnoughMemory extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'NotEnoughMemory';
  }
}

/** Memory for `slots` sequences of `slotTokens`; llama.cpp rounds a slot up to 256 tokens. */
export function memoryNeed(
  model: { sizeBytes: number; kvBytesPerToken: number },
  slots: number,
  slotTokens: number,
): MemoryNeed {
  const kvBytes = slots * Math.ceil(slotTokens / 256) * 256 * model.kvBytesPerToken;
  return { fileBytes: model.sizeBytes, kvBytes, overheadBytes: OVERHEAD_BYTES };
}

const OVERHEAD_BYTES = 150 * 1024 * 1024;

/** Throws `NotEnoughMemory` where the need is larger than what is available. */
export function checkMemory(need: MemoryNeed, available: MemoryAvailable = availableMemory()): void {
  const total = need.fileBytes + need.kvBytes + need.overheadBytes;
  if (total <= available.bytes) return;
  const where =
    available.limit === 'cgroup'
      ? "available within the container's memory limit (cgroup)"
      : 'available on this machine';
  throw new NotEnoughMemory(
    `Not enough memory: the model needs ${megabytes(total)} (file ${megabytes(need.fileBytes)}, ` +
      `context of all slots ${megabytes(need.kvBytes)}, process ${megabytes(need.overheadBytes)}), but only ` +
      `${megabytes(available.bytes)} are ${where}. Use fewer slots, a smaller contextTokens or a smaller model.`,
  );
}

/** The smaller of what the machine has free and what the process's cgroups (v1 or v2) leave it. `root` is the root of the file system. */
export function availableMemory(root = '/'): MemoryAvailable {
  const machine = machineBytes(root);
  const cgroup = cgroupBytes(root);
  return cgroup !== null && cgroup < machine
    ? { bytes: cgroup, limit: 'cgroup' }
    : { bytes: machine, limit: 'machine' };
}

function machineBytes(root: string): number {
  const kilobytes = /^MemAvailable:\s+(\d+) kB$/m.exec(read(join(root, 'proc/meminfo')) ?? '')?.[1];
  if (kilobytes !== undefined) return Number(kilobytes) * 1024;
  // macOS counts its file cache as used, and gives it back when asked: half the memory is a fair guess.
  return process.platform === 'darwin' ? Math.max(freemem(), totalmem() / 2) : freemem();
}

/** The least that any of the process's cgroups leaves; null: none has a limit. A limit holds for all groups below it. */
function cgroupBytes(root: string): number | null {
  let least: number | null = null;
  for (const line of (read(join(root, 'proc/self/cgroup')) ?? '').split('\n')) {
    const [id, controllers, path] = line.split(':', 3);
    if (path === undefined) continue;
    const kind = id === '0' ? V2 : controllers?.split(',').includes('memory') ? V1 : null;
    if (kind === null) continue;
    for (let group = path; ; group = dirname(group)) {
      const left = leftIn(join(root, 'sys/fs/cgroup', kind.folder, group), kind);
      if (left !== null && (least === null || left < least)) least = left;
      if (group === dirname(group)) break;
    }
  }
  return least;
}

const V2 = { folder: '', limit: 'memory.max', usage: 'memory.current', cache: 'inactive_file' };
const V1 = {
  folder: 'memory',
  limit: 'memory.limit_in_bytes',
  usage: 'memory.usage_in_bytes',
  cache: 'total_inactive_file',
};

function leftIn(folder: string, kind: typeof V2): number | null {
  const limit = Number(read(join(folder, kind.limit))?.trim());
  // "max" in v2; in v1 a number near 2^63.
  if (!Number.isFinite(limit) || limit >= Number.MAX_SAFE_INTEGER || limit === 0) return null;
  const usage = Number(read(join(folder, kind.usage))?.trim() ?? 0);
  // A file that was read, such as a model just downloaded, counts as used and can be dropped at once.
  const cache = new RegExp(`^${kind.cache} (\\d+)$`, 'm').exec(read(join(folder, 'memory.stat')) ?? '')?.[1];
  return Math.max(0, limit - Math.max(0, usage - Number(cache ?? 0)));
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null; // Not this kind of system.
  }
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1_000_000).toLocaleString('en-US')} MB`;
}
