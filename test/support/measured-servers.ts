import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from './server-process.ts';

/** A server under test, as a child process. */
export interface Server extends AsyncDisposable {
  url: string;
  key: string | null;
  pid: number;
}

/** The running child processes, which are killed when the benchmark ends. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(1));

function start(program: string, args: readonly string[], env: NodeJS.ProcessEnv): ChildProcess {
  const child = spawn(program, args, { env, stdio: 'ignore' });
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** The folder of this clone. */
const ROOT = join(import.meta.dirname, '..', '..');

/**
 * Starts Sluice with this configuration (YAML) and a new data directory, creates a key, and waits until the service is
 * ready. `settings` are additional environment variables; `prepare` is called with the data directory before the start;
 * `root` is the folder of a clone.
 */
export async function startSluice(
  config: string,
  settings: NodeJS.ProcessEnv = {},
  prepare: (home: string) => Promise<void> = async () => {},
  root = ROOT,
): Promise<Server & { restart(): Promise<void> }> {
  const home = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const file = join(home, 'sluice.yaml');
  await writeFile(file, config);
  const port = await freePort();
  const env = {
    ...process.env,
    ...settings,
    SLUICE_HOME: home,
    SLUICE_CONFIG: file,
    SLUICE_PORT: String(port),
  };
  const main = join(root, 'src/main.ts');
  const json = execFileSync(process.execPath, [main, 'keys', 'create', '--name', 'bench', '--json'], { env });
  // The documented output of the command.
  const { key } = JSON.parse(json.toString()) as { key: string };
  await prepare(home);
  const url = `http://127.0.0.1:${port}`;
  let child = await open();
  async function open(): Promise<ChildProcess> {
    const started = start(process.execPath, [main, 'serve'], env);
    await waitUntilReady(`${url}/readyz`, started);
    return started;
  }
  return {
    url,
    key,
    pid: child.pid ?? 0,
    async restart() {
      await stop(child);
      child = await open();
    },
    async [Symbol.asyncDispose]() {
      await stop(child);
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** Starts a server other than Sluice on a free port and waits until `readyPath` returns 200. */
export async function startPeer(
  program: string,
  argumentsFor: (port: number) => readonly string[] | Promise<readonly string[]>,
  readyPath: string,
): Promise<Server> {
  const port = await freePort();
  const child = start(program, await argumentsFor(port), process.env);
  const url = `http://127.0.0.1:${port}`;
  await waitUntilReady(url + readyPath, child);
  return { url, key: null, pid: child.pid ?? 0, [Symbol.asyncDispose]: () => stop(child) };
}

export interface PairOptions {
  /** Path of `llama-server`, or its name on the `PATH`. */
  llamaServer: string;
  modelId: string;
  /** Absolute path. */
  modelFile: string;
  slots: number;
  /** Tokens per slot. */
  contextTokens: number;
  threads: number;
  /** Additional arguments of `llama-server`. */
  peerArguments?: readonly string[];
}

/** Starts Sluice and `llama-server` with the same model, slots and threads. */
export async function startPair({
  llamaServer,
  modelId,
  modelFile,
  slots,
  contextTokens,
  threads,
  peerArguments = [],
}: PairOptions): Promise<{ sluice: Server; peer: Server } & AsyncDisposable> {
  const engine = `{file: ${JSON.stringify(modelFile)}, slots: ${slots}, contextTokens: ${contextTokens}, threads: ${threads}}`;
  const sluice = await startSluice(`logLevel: info\nmodels:\n  - id: ${modelId}\n    engine: ${engine}\n`);
  const sizes = ['-np', String(slots), '-c', String(slots * contextTokens)];
  const speed = ['-t', String(threads), '-tb', String(threads)];
  const peer = await startPeer(
    llamaServer,
    (port) =>
      ['-m', modelFile, '--host', '127.0.0.1', '--port', String(port), '--no-webui'].concat(
        sizes,
        speed,
        peerArguments,
      ),
    '/health',
  );
  return {
    sluice,
    peer,
    async [Symbol.asyncDispose]() {
      await sluice[Symbol.asyncDispose]();
      await peer[Symbol.asyncDispose]();
    },
  };
}

async function waitUntilReady(url: string, child: ChildProcess): Promise<void> {
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`${child.spawnfile} ended before it was ready`);
    const status = await fetch(url)
      .then((response) => response.status)
      .catch(() => 0);
    if (status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await exited;
}
