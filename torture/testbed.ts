import { mkdirSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { openDatabase, type Database } from '../src/database/database.ts';
import { Secret } from '../src/support/secret.ts';
import { startPostgres, startValkey, type TestServer } from '../test/support/server-process.ts';
import { createAccounts, type TortureCaller } from './accounts.ts';
import { startFalseUsageReplica, startLimitedReplica, type LimitedReplica } from './false-usage-replica.ts';
import { startAlertReceiver, type AlertReceiver } from './alerts.ts';
import { configuration, REPLICA_MODEL, REPLICAS, WEBHOOK_SECRET } from './configuration.ts';
import { openDisk, type Disk } from './disk.ts';
import { Program } from '../test/support/program.ts';
import { REGISTER, SERVE_SCRIPTED } from '../test/support/scripted-engine/options.ts';

const MAIN = join(import.meta.dirname, '..', 'src', 'main.ts');

/** Timeout for recovery, in milliseconds. After many crashes, an engine stays down for a minute. */
const LONGEST_RECOVERY_MS = 90_000;

/** Ports below the range of outgoing connections, which could take them while an instance is down. */
const PORTS = { first: 20_000, last: 32_000 };

export interface TestbedOptions {
  database: 'sqlite' | 'postgres';
  /** Number of instances; 1 on SQLite. */
  instances: number;
  /** Aborts all waits. */
  stop: AbortSignal;
}

interface Instance {
  readonly program: Program;
  readonly url: string;
}

interface EngineProgram {
  readonly program: Program;
  readonly port: number;
}

/** The processes under test. */
export interface Testbed extends AsyncDisposable {
  readonly instances: readonly Instance[];
  /** Engine servers, which all instances share. */
  readonly engines: readonly EngineProgram[];
  /** A replica that responds with 429 to every request, beside the one that reports false usage. */
  readonly limitedReplica: LimitedReplica;
  /** Receives the alerts of all instances. */
  readonly alertReceiver: AlertReceiver;
  /** Where all instances make their scheduled backups. */
  readonly backupDirectory: string;
  /** Null on SQLite, as is `valkey`. */
  readonly postgres: TestServer | null;
  readonly valkey: TestServer | null;
  /** The disk of the SQLite data directory; null on PostgreSQL. */
  readonly disk: Disk | null;
  /** Path of the database on SQLite. */
  readonly sqliteFile: string;
  readonly callers: readonly TortureCaller[];
  readonly adminKey: string;
  /** The directory with the logs of all programs. */
  readonly folder: string;
  /** Waits until all instances are ready. Rejects after a timeout. */
  healthy(): Promise<void>;
  openDatabase(): Promise<Database>;
  /** Keeps the directory when the testbed is disposed. */
  keepFolder(): void;
}

/** Starts all processes and waits until all instances are ready. */
export async function startTestbed({ database, instances: count, stop }: TestbedOptions): Promise<Testbed> {
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'sluice-torture-'));
  let keep = false;
  owned.defer(() =>
    keep ? undefined : rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }),
  );
  const home = join(folder, 'home');
  mkdirSync(home, { mode: 0o700 });
  const disk = database === 'sqlite' ? owned.use(openDisk(home)) : null;
  const postgres = database === 'postgres' ? owned.use(await startPostgres()) : null;
  const valkey = database === 'postgres' ? owned.use(await startValkey()) : null;
  const location = { home, url: postgres && new Secret(postgres.url) };
  const { callers, adminKey } = await createAccounts(location);

  const [falseUsagePort = 0, limitedPort = 0, ...ports] = await freePorts(2 + count + REPLICAS);
  const replicaPorts = ports.splice(count);
  owned.use(await startFalseUsageReplica(falseUsagePort));
  const limitedReplica = owned.use(await startLimitedReplica(limitedPort));
  const alertReceiver = owned.use(await startAlertReceiver());
  const backupDirectory = join(folder, 'backups');
  const webhookUrl = alertReceiver.url;
  const addresses = { replicaPorts, falseUsagePort, limitedPort, webhookUrl, backupDirectory };
  const config = join(folder, 'sluice.yaml');
  await writeFile(config, configuration(addresses));
  const start = (name: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Program => {
    const logFile = join(folder, `${name}.log`);
    // Compiling is half of the cost of starting the program.
    const all = { NODE_COMPILE_CACHE: join(folder, 'compiled'), ...process.env, ...env };
    const program = owned.use(new Program({ args, env: all, logFile }));
    program.up();
    return program;
  };
  const engines = replicaPorts.map((port, index) => ({
    port,
    program: start(`engine-${index}`, [SERVE_SCRIPTED, '--model', REPLICA_MODEL, '--port', String(port)]),
  }));
  const instances = ports.map((port, index) => ({
    url: `http://127.0.0.1:${port}`,
    program: start(`instance-${index}`, ['--import', REGISTER, MAIN, 'serve'], {
      SLUICE_CONFIG: config,
      // Instances on PostgreSQL have separate data directories.
      SLUICE_HOME: postgres ? join(folder, `home-${index}`) : home,
      SLUICE_PORT: String(port),
      [WEBHOOK_SECRET]: `whsec_${Buffer.alloc(32).toString('base64')}`,
      ...(postgres && { SLUICE_DATABASE_URL: postgres.url }),
      ...(valkey && { SLUICE_VALKEY_URL: valkey.url }),
    }),
  }));

  const healthy = async (): Promise<void> => {
    try {
      await Promise.all(instances.map(({ url }) => ready(url, stop)));
    } catch (error) {
      stop.throwIfAborted();
      keep = true;
      throw new Error(`Not all instances became ready. The logs are in ${folder}.`, { cause: error });
    }
  };
  await healthy();
  const kept = owned.move();
  return {
    instances,
    engines,
    limitedReplica,
    alertReceiver,
    backupDirectory,
    postgres,
    valkey,
    disk,
    sqliteFile: join(home, 'sluice.db'),
    callers,
    adminKey,
    folder,
    healthy,
    openDatabase: () => openDatabase(location),
    keepFolder: () => void (keep = true),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

async function ready(url: string, stop: AbortSignal): Promise<void> {
  const deadline = performance.now() + LONGEST_RECOVERY_MS;
  for (;;) {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2000) }).catch(() => null);
    if (response?.ok) return;
    if (performance.now() > deadline) throw new Error(`${url} did not become ready`);
    await pause(100, undefined, { signal: stop });
  }
}

async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) {
    const port = PORTS.first + Math.floor(Math.random() * (PORTS.last - PORTS.first));
    const server = createServer();
    const free = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (free) ports.add(port);
  }
  return [...ports];
}
