import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import type { Log } from '../../../support/log.ts';
import type { Addon, AddonContext } from './addon.ts';
import { messageOf } from '../../../support/thrown.ts';

/** The loaded native addon. */
export interface Backend {
  addon: Addon;
  kind: 'cuda' | 'metal' | 'vulkan' | 'cpu';
  /** Name of the npm package. */
  package: string;
  /** The last errors that llama.cpp logged, at most eight. */
  errors: string[];
}

/** No package for this platform could be loaded. */
export class BackendError extends Error {
  override readonly name = 'BackendError';
}

/**
 * llama.cpp's levels: 1 fatal, 2 error, 3 warning. Warnings are left out, because they repeat at each load and are not
 * useful.
 */
const MAX_LOG_LEVEL = 2;

/**
 * Loads the addon from the first installed package that works: CUDA, Metal, Vulkan, CPU. Call it once per process: an
 * addon cannot be unloaded. Throws `BackendError`.
 */
export async function loadBackend(log: Log): Promise<Backend> {
  const failures: string[] = [];
  for (const name of packagesOf(process.platform, process.arch)) {
    const folder = binariesFolder(name);
    if (folder === null) {
      failures.push(`${name} is not installed`);
      continue;
    }
    try {
      return await openPackage(name, folder, log);
    } catch (error) {
      failures.push(`${name} failed to load (${messageOf(error)})`);
      log.warn('engine package failed to load; trying the next one', { package: name, error: String(error) });
    }
  }
  throw new BackendError(
    `No engine for ${process.platform}-${process.arch}: ${failures.join('; ')}. Run \`npm ci\` without --omit=optional.`,
  );
}

/** Returns the addon's packages for a platform, most preferred first. */
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
 * Whether a package for GPUs with their own memory is installed. The GPU itself may be missing. Metal does not count,
 * because Apple's GPUs use the machine's memory.
 */
export function hasGpuPackage(): boolean {
  return packagesOf(process.platform, process.arch).some(
    (name) => /-(cuda|vulkan)$/.test(name) && binariesFolder(name) !== null,
  );
}

/**
 * Returns the default number of threads for a decode: the number of physical performance cores, limited by CPU affinity
 * and cgroup quota.
 */
export function defaultThreads(backend: Backend): number {
  return Math.max(1, Math.min(Math.floor(backend.addon.getMathCores()), availableParallelism()));
}

const require = createRequire(import.meta.url);

/** Returns the folder of a package's binaries, or null if the package is not installed. */
function binariesFolder(name: string): string | null {
  try {
    // The package only exports `<root>/dist/index.js`, so its root is two levels up.
    return join(dirname(dirname(require.resolve(name))), 'bins', name.slice(name.indexOf('/') + 1));
  } catch {
    return null;
  }
}

async function openPackage(name: string, folder: string, log: Log): Promise<Backend> {
  const addon = checkAddon(require(join(folder, 'llama-addon.node')));
  const errors: string[] = [];
  addon.markLoaded();
  // By default, the addon logs to standard output, which is for reports to the supervisor.
  addon.setLogger((level, message) => {
    const text = message.trim();
    if (level > MAX_LOG_LEVEL || text === '') return;
    errors.push(text);
    if (errors.length > 8) errors.shift();
    log.warn('llama.cpp', { text });
  });
  addon.setLoggerLogLevel(MAX_LOG_LEVEL);
  addon.loadBackends();
  if (!addon.getGpuType()) addon.loadBackends(folder);
  // The CUDA build for older drivers is a separate package.
  const legacy = binariesFolder(`${name}-ext`);
  if (!addon.getGpuType() && legacy !== null) addon.loadBackends(join(legacy, 'fallback'));
  const kind = usableGpu(addon, name, log) ?? 'cpu';
  await addon.init();
  return { addon, kind, package: name, errors };
}

function usableGpu(addon: Addon, name: string, log: Log): 'cuda' | 'metal' | 'vulkan' | null {
  const type = addon.getGpuType();
  if (type === undefined) throw new Error('no usable processor found');
  // The library of a GPU package also loads on machines without one.
  if (type === false || addon.getGpuDeviceInfo().deviceNames.length === 0) {
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

const REQUIRED_EXPORTS = [
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
  'getGpuDeviceInfo',
  'getGpuVramInfo',
  'getMathCores',
  'init',
] as const satisfies readonly (keyof Addon)[];

/** Older versions of the addon lack some of these. */
const REQUIRED_CONTEXT_METHODS = [
  'initBatch',
  'addToBatch',
  'decodeBatch',
  'sampleToken',
  'disposeSequence',
  'removeTokenCellsFromSequence',
  'copySequenceStateFromOtherSequence',
  'saveSequenceStateToFile',
  'loadSequenceStateFromFile',
  'getMemoryBreakdown',
  'getEmbedding',
  'setThreads',
] as const satisfies readonly (keyof AddonContext)[];

/** Throws `Error` for an incompatible version of the addon, so that it fails at load and not during a request. */
export function checkAddon(exports: unknown): Addon {
  const found = exports as Partial<Record<string, unknown>>;
  const missing: string[] = REQUIRED_EXPORTS.filter((name) => typeof found[name] !== 'function');
  const context = (found['AddonContext'] as { prototype?: object } | undefined)?.prototype ?? {};
  missing.push(...REQUIRED_CONTEXT_METHODS.filter((name) => !(name in context)));
  if (missing.length > 0) throw new Error(`incompatible version: missing ${missing.join(', ')}`);
  return exports as Addon;
}
