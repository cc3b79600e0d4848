import { mkdirSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { openDatabase, type Database } from '../src/database/database.ts';
import { Secret } from '../src/secret.ts';
import { startPostgres, startValkey, type TestServer } from '../test/server-process.ts';
import { makeCast, type TortureCaller } from './accounts.ts';
import { startLiar } from './liar.ts';
import { configuration, REPLICA_MODEL, REPLICAS } from './configuration.ts';
import { openDisk, type Disk } from './disk.ts';
import { Program } from './program.ts';

const MAIN = join(import.meta.dirname, '..', 'src', 'main.ts');

/** How long everything may take to be well again, in milliseconds: an engine that died often waits for a minute. */
const LONGEST_RECOVERY_MS = 90_000;

/** Ports below those that systems give to outgoing connections, which would take them while a copy is down. */
const PORTS = { first: 20_000, last: 32_000 };

export interface StageOptions {
  database: 'sqlite' | 'postgres';
  /** Copies of the service; 1 on SQLite. */
  copies: number;
  /** Ends all waiting. */
  stop: AbortSignal;
}

/** A copy of the service. */
interface Copy {
  readonly program: Program;
  readonly url: string;
}

/** An engine that is a server of its own. */
interface EngineServer {
  readonly program: Program;
  readonly port: number;
}

/** Everything that runs, as processes of their own, for faults to hit. */
export interface Stage extends AsyncDisposable {
  readonly copies: readonly Copy[];
  /** Engines that are servers of their own; every copy knows them. */
  readonly engines: readonly EngineServer[];
  /** Null on SQLite, as is `valkey`. */
  readonly postgres: TestServer | null;
  readonly valkey: TestServer | null;
  /** Of the SQLite home; null on PostgreSQL. */
  readonly disk: Disk | null;
  /** Path of the database on SQLite. */
  readonly sqliteFile: string;
  readonly callers: readonly TortureCaller[];
  /** A key that may ask how limits stand. */
  readonly adminKey: string;
  /** The logs of all programs. */
  readonly folder: string;
  /** Resolves when every copy is ready; rejects when one never is. */
  healthy(): Promise<void>;
  /** Opens the database as one more process. */
  openDatabase(): Promise<Database>;
  /** Leaves the folder where it is when everything else goes. */
  keepFolder(): void;
}

/** Starts everything and waits until it is healthy. */
export async function setStage({ database, copies: count, stop }: StageOptions): Promise<Stage> {
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
  const place = { home, url: postgres && new Secret(postgres.url) };
  const { callers, adminKey } = await makeCast(place);

  const [liarPort = 0, ...ports] = await freePorts(1 + count + REPLICAS);
  const replicaPorts = ports.splice(count);
  owned.use(await startLiar(liarPort));
  const config = join(folder, 'sluice.yaml');
  await writeFile(config, configuration(replicaPorts, liarPort));
  const start = (name: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Program => {
    const logFile = join(folder, `${name}.log`);
    // Half of what it takes to start a program is to compile it.
    const all = { NODE_COMPILE_CACHE: join(folder, 'compiled'), ...process.env, ...env };
    const program = owned.use(new Program({ args: [MAIN, ...args], env: all, logFile }));
    program.up();
    return program;
  };
  const engines = replicaPorts.map((port, index) => ({
    port,
    program: start(`engine-${index}`, [
      'engine',
      'scripted',
      '--model',
      REPLICA_MODEL,
      '--port',
      String(port),
    ]),
  }));
  const copies = ports.map((port, index) => ({
    url: `http://127.0.0.1:${port}`,
    program: start(`copy-${index}`, ['serve'], {
      SLUICE_CONFIG: config,
      // Copies on PostgreSQL share nothing but their servers.
      SLUICE_HOME: postgres ? join(folder, `home-${index}`) : home,
      SLUICE_PORT: String(port),
      ...(postgres && { SLUICE_DATABASE_URL: postgres.url }),
      ...(valkey && { SLUICE_VALKEY_URL: valkey.url }),
    }),
  }));

  const healthy = async (): Promise<void> => {
    try {
      await Promise.all(copies.map(({ url }) => ready(url, stop)));
    } catch (error) {
      stop.throwIfAborted();
      keep = true;
      throw new Error(`It does not become healthy; the logs are in ${folder}.`, { cause: error });
    }
  };
  await healthy();
  const kept = owned.move();
  return {
    copies,
    engines,
    postgres,
    valkey,
    disk,
    sqliteFile: join(home, 'sluice.db'),
    callers,
    adminKey,
    folder,
    healthy,
    openDatabase: () => openDatabase(place),
    keepFolder: () => void (keep = true),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

async function ready(url: string, stop: AbortSignal): Promise<void> {
  const deadline = performance.now() + LONGEST_RECOVERY_MS;
  for (;;) {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2000) }).catch(() => null);
    if (answer?.ok) return;
    if (performance.now() > deadline) throw new Error(`${url} does not become ready`);
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
