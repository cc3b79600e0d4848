import { readFileSync } from 'node:fs';
import { freemem, totalmem } from 'node:os';
import { dirname, join } from 'node:path';

/** The memory that an engine needs, in bytes. */
export interface MemoryNeed {
  /** All parts of the model file. */
  fileBytes: number;
  /** KV cache: slots x tokens per slot x bytes per token. */
  kvBytes: number;
  /** Process, buffers and samplers. */
  overheadBytes: number;
}

export interface MemoryAvailable {
  bytes: number;
  /** The source of the limit. */
  limit: 'machine' | 'cgroup';
}

/** The model does not fit into memory. */
export class NotEnoughMemory extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'NotEnoughMemory';
  }
}

/** llama.cpp rounds the tokens of a slot up to a multiple of 256. */
export function memoryNeed(
  model: { sizeBytes: number; kvBytesPerToken: number },
  slots: number,
  slotTokens: number,
): MemoryNeed {
  const kvBytes = slots * Math.ceil(slotTokens / 256) * 256 * model.kvBytesPerToken;
  return { fileBytes: model.sizeBytes, kvBytes, overheadBytes: OVERHEAD_BYTES };
}

const OVERHEAD_BYTES = 150 * 1024 * 1024;

/** Throws `NotEnoughMemory`. */
export function checkMemory(need: MemoryNeed, available: MemoryAvailable = availableMemory()): void {
  const total = need.fileBytes + need.kvBytes + need.overheadBytes;
  if (total <= available.bytes) return;
  const location =
    available.limit === 'cgroup'
      ? "available within the container's memory limit (cgroup)"
      : 'available on this machine';
  throw new NotEnoughMemory(
    `Not enough memory: the model needs ${megabytes(total)} (file ${megabytes(need.fileBytes)}, ` +
      `context of all slots ${megabytes(need.kvBytes)}, process ${megabytes(need.overheadBytes)}), but only ` +
      `${megabytes(available.bytes)} are ${location}. Use fewer slots, a smaller contextTokens or a smaller model.`,
  );
}

/** Returns the memory available on the machine and in the process's cgroups (v1 or v2). `root`: of the file system. */
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
  // macOS counts its file cache as used, but frees it on demand: half the memory is an estimate.
  return process.platform === 'darwin' ? Math.max(freemem(), totalmem() / 2) : freemem();
}

/** Returns the smallest remainder of the process's cgroups and their parents; null: no limit. */
function cgroupBytes(root: string): number | null {
  let smallest: number | null = null;
  for (const line of (read(join(root, 'proc/self/cgroup')) ?? '').split('\n')) {
    const [id, controllers, path] = line.split(':', 3);
    if (path === undefined) continue;
    const version = id === '0' ? V2 : controllers?.split(',').includes('memory') ? V1 : null;
    if (version === null) continue;
    for (let group = path; ; group = dirname(group)) {
      const remaining = remainingIn(join(root, 'sys/fs/cgroup', version.folder, group), version);
      if (remaining !== null && (smallest === null || remaining < smallest)) smallest = remaining;
      if (group === dirname(group)) break;
    }
  }
  return smallest;
}

const V2 = { folder: '', limit: 'memory.max', usage: 'memory.current', cache: 'inactive_file' };
const V1 = {
  folder: 'memory',
  limit: 'memory.limit_in_bytes',
  usage: 'memory.usage_in_bytes',
  cache: 'total_inactive_file',
};

function remainingIn(folder: string, version: typeof V2): number | null {
  const limit = Number(read(join(folder, version.limit))?.trim());
  // No limit is "max" in v2, and a number near 2^63 in v1.
  if (!Number.isFinite(limit) || limit >= Number.MAX_SAFE_INTEGER || limit === 0) return null;
  const usage = Number(read(join(folder, version.usage))?.trim() ?? 0);
  // The file cache counts as used, for example after a download, but can be freed immediately.
  const cache = new RegExp(`^${version.cache} (\\d+)$`, 'm').exec(
    read(join(folder, 'memory.stat')) ?? '',
  )?.[1];
  return Math.max(0, limit - Math.max(0, usage - Number(cache ?? 0)));
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null; // Another operating system.
  }
}

function megabytes(bytes: number): string {
  return `${Math.ceil(bytes / 1_000_000).toLocaleString('en-US')} MB`;
}
