import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A server under measurement, in a process of its own. */
export interface Server extends AsyncDisposable {
  url: string;
  key: string | null;
  pid: number;
}

/** What was started and still runs: it must not outlive the benchmark, however that ends. */
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

const root = join(import.meta.dirname, '..');

/**
 * Starts Sluice with this configuration (YAML) in a fresh home, with one key, and waits until it is ready. `more` is
 * for its environment.
 */
export async function startSluice(config: string, more: NodeJS.ProcessEnv = {}): Promise<Server> {
  const home = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
  const file = join(home, 'sluice.yaml');
  await writeFile(file, config);
  const port = await freePort();
  const env = { ...process.env, ...more, SLUICE_HOME: home, SLUICE_CONFIG: file, SLUICE_PORT: String(port) };
  const main = join(root, 'src/main.ts');
  const made = execFileSync(process.execPath, [main, 'keys', 'create', '--name', 'bench', '--json'], { env });
  // Our own command's documented output.
  const { key } = JSON.parse(made.toString()) as { key: string };
  const child = start(process.execPath, [main, 'serve'], env);
  const url = `http://127.0.0.1:${port}`;
  await answers(`${url}/readyz`, child);
  return {
    url,
    key,
    pid: child.pid ?? 0,
    async [Symbol.asyncDispose]() {
      await end(child);
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** Starts a peer's program on a free port and waits until it answers 200 at `readyPath`. */
export async function startPeer(
  program: string,
  argumentsFor: (port: number) => readonly string[] | Promise<readonly string[]>,
  readyPath: string,
): Promise<Server> {
  const port = await freePort();
  const child = start(program, await argumentsFor(port), process.env);
  const url = `http://127.0.0.1:${port}`;
  await answers(url + readyPath, child);
  return { url, key: null, pid: child.pid ?? 0, [Symbol.asyncDispose]: () => end(child) };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

async function answers(url: string, child: ChildProcess): Promise<void> {
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`${child.spawnfile} ended before it answered`);
    const status = await fetch(url)
      .then((response) => response.status)
      .catch(() => 0);
    if (status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGTERM');
  await gone;
}
