import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import type { Log } from '../../log.ts';
import type { Addon, AddonContext } from './addon.ts';

/** The native addon, loaded, with the processor it computes on. */
export interface Backend {
  addon: Addon;
  /** What computes, in a word. */
  kind: 'cuda' | 'metal' | 'vulkan' | 'cpu';
  /** The package it came from. */
  package: string;
  /** The last lines that llama.cpp logged as errors: why a load failed. At most eight. */
  errors: string[];
}

/** No package of this platform could be loaded; `message` tells each one tried and what became of it. */
export class BackendError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'BackendError';
  }
}

/** llama.cpp's levels: 1 fatal, 2 error, 3 warning. Its warnings repeat at each load and tell nothing new. */
const ERROR_LEVEL = 2;

/**
 * Loads the addon: CUDA before Metal before Vulkan before the plain CPU, of the packages that are installed.
 * One that does not load is passed over with a line in the log. Once a process: an addon cannot be unloaded.
 * Throws `BackendError`.
 */
export async function loadBackend(log: Log): Promise<Backend> {
  const tried: string[] = [];
  for (const name of packagesOf(process.platform, process.arch)) {
    const folder = folderOf(name);
    if (folder === null) {
      tried.push(`${name} is not installed`);
      continue;
    }
    try {
      return await open(name, folder, log);
    } catch (error) {
      tried.push(`${name} failed to load (${error instanceof Error ? error.message : String(error)})`);
      log.warn('engine package failed to load; trying the next one', { package: name, error: String(error) });
    }
  }
  throw new BackendError(
    `No engine for ${process.platform}-${process.arch}: ${tried.join('; ')}. Run \`npm ci\` without --omit=optional.`,
  );
}

/** The addon's packages for a platform, the one to be preferred first. */
export function packagesOf(platform: NodeJS.Platform, arch: string): string[] {
  const names: Partial<Record<string, string[]>> = {
    'linux-x64': ['linux-x64-cuda', 'linux-x64-vulkan', 'linux-x64'],
    'linux-arm64': ['linux-arm64'],
    'darwin-arm64': ['mac-arm64-metal'],
    'darwin-x64': ['mac-x64'],
    'win32-x64': ['win-x64-cuda', 'win-x64-vulkan', 'win-x64'],
    'win32-arm64': ['win-arm64'],
  };
  return (names[`${platform}-${arch}`] ?? []).map((name) => `@node-llama-cpp/${name}`);
}

/**
 * Threads for a decode step where nobody said a number: the cores worth a thread each, within what the
 * process may use (its affinity and its cgroup's quota). At least 1.
 */
export function defaultThreads(backend: Backend): number {
  return Math.max(1, Math.min(Math.floor(backend.addon.getMathCores()), availableParallelism()));
}

const require = createRequire(import.meta.url);

/** The folder of a package's binaries; null where it is not installed. */
function folderOf(name: string): string | null {
  try {
    // The package's entry is `<root>/dist/index.js`, and it exports no other path.
    return join(dirname(dirname(require.resolve(name))), 'bins', name.slice(name.indexOf('/') + 1));
  } catch {
    return null;
  }
}

async function open(name: string, folder: string, log: Log): Promise<Backend> {
  const addon = checkAddon(require(join(folder, 'llama-addon.node')));
  const errors: string[] = [];
  addon.markLoaded();
  // Without a logger of ours the addon writes to standard output, which belongs to the supervisor.
  addon.setLogger((level, message) => {
    const text = message.trim();
    if (level > ERROR_LEVEL || text === '') return;
    errors.push(text);
    if (errors.length > 8) errors.shift();
    log.warn('llama.cpp', { text });
  });
  addon.setLoggerLogLevel(ERROR_LEVEL);
  addon.loadBackends();
  if (!addon.getGpuType()) addon.loadBackends(folder);
  // A CUDA build for older drivers comes as a package of its own.
  const older = folderOf(`${name}-ext`);
  if (!addon.getGpuType() && older !== null) addon.loadBackends(join(older, 'fallback'));
  const kind = usableGpu(addon, name, log) ?? 'cpu';
  await addon.init();
  return { addon, kind, package: name, errors };
}

function usableGpu(addon: Addon, name: string, log: Log): 'cuda' | 'metal' | 'vulkan' | null {
  const type = addon.getGpuType();
  if (type === undefined) throw new Error('no usable processor found');
  if (type === false) {
    if (/-(cuda|vulkan|metal)$/.test(name)) log.warn('no usable GPU; using the CPU', { package: name });
    return null;
  }
  try {
    addon.ensureGpuDeviceIsSupported();
    return type;
  } catch (error) {
    log.warn('the GPU is not supported; using the CPU', { package: name, error: String(error) });
    return null;
  }
}

const NEEDED = [
  'AddonModel',
  'AddonContext',
  'AddonSampler',
  'AddonGrammar',
  'AddonGrammarEvaluationState',
  'markLoaded',
  'setLogger',
  'setLoggerLogLevel',
  'loadBackends',
  'getGpuType',
  'ensureGpuDeviceIsSupported',
  'getGpuVramInfo',
  'getMathCores',
  'init',
] as const satisfies readonly (keyof Addon)[];

/** What else tells a version by which it has: an older addon cannot copy a sequence, nor tell the weight of all logits. */
const NEEDED_OF_CONTEXT = [
  'initBatch',
  'addToBatch',
  'decodeBatch',
  'sampleToken',
  'disposeSequence',
  'removeTokenCellsFromSequence',
  'copySequenceStateFromOtherSequence',
] as const satisfies readonly (keyof AddonContext)[];

/** An addon of another version fails here, by name, and not in the middle of a request. Throws `Error`. */
export function checkAddon(exports: unknown): Addon {
  const found = exports as Partial<Record<string, unknown>>; // Native: its types are what is checked next.
  const missing: string[] = NEEDED.filter((name) => typeof found[name] !== 'function');
  const context = (found['AddonContext'] as { prototype?: object } | undefined)?.prototype ?? {};
  missing.push(...NEEDED_OF_CONTEXT.filter((name) => !(name in context)));
  if (missing.length > 0) throw new Error(`incompatible version: missing ${missing.join(', ')}`);
  return exports as Addon; // Every name that the interface has is there.
}
