import { fork, spawn, type ChildProcess, type SpawnOptions } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { inspect } from 'node:util';
import type { Clock } from '../src/accounts/clock.ts';
import type { ReplicaHealth } from '../src/engine/engine.ts';
import type { PasswordHasher } from '../src/identity/password.ts';
import { isReady } from '../src/routing/readiness.ts';
import type { Service, ServiceOptions } from '../src/service.ts';
import { dropSettings } from './support/environment.ts';
import { memoryFolder } from './support/memory-folder.ts';
import { REGISTER } from './support/scripted-engine/options.ts';
import { createSqlite } from './support/sqlite-template.ts';

dropSettings();

/** The scripted model. */
export const MODEL = 'test/scripted';

/** Returns a configuration with the scripted model; `engine` has its options. */
export function scriptedYaml(engine: object = {}, rest = ''): string {
  return `models:\n  - id: ${MODEL}\n    engine:\n      file: 'scripted:${JSON.stringify(engine)}'\n${rest}`;
}

export interface OpenedService extends AsyncDisposable {
  service: Service;
  url: string;
  home: string;
  /** The environment for commands on the same data directory. */
  env: NodeJS.ProcessEnv;
  /** Returns the log so far. */
  log(): string;
}

export interface TestService extends OpenedService {
  /** A caller key. */
  key: string;
}

/** Creates a directory that is removed when disposed. */
export async function temporaryFolder(parent = tmpdir()): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(parent, 'sluice-test-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A clock that only a test advances. */
export class ManualClock implements Clock {
  unix = Date.now();
  up = 0;
  now = () => this.unix;
  elapsed = () => this.up;

  advance(ms: number): void {
    this.unix += ms;
    this.up += ms;
  }
}

/** Replaces scrypt, which would take most of the CPU time of tests that sign in. */
const CHEAP_PASSWORDS: PasswordHasher = {
  hash: async (password) => createHash('sha256').update(password).digest('hex'),
  verify: async (hash, password) => hash === createHash('sha256').update(password).digest('hex'),
};

export type TestServiceOptions = Pick<ServiceOptions, 'clock' | 'passwords'>;

/** Starts a service in this process with a new data directory, and waits until it is ready. */
export async function startService(
  yaml = scriptedYaml(),
  env: NodeJS.ProcessEnv = {},
  options?: TestServiceOptions,
): Promise<TestService> {
  await using owned = new AsyncDisposableStack();
  const opened = owned.use(await openService(yaml, env, options));
  await ready(opened.service);
  const { key } = await opened.service.keys.create({ name: 'test' });
  const kept = owned.move();
  return { ...opened, key: key.reveal(), [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** Starts a service like `startService`, but without a key and without waiting for its models. */
export async function openService(
  yaml = scriptedYaml(),
  env: NodeJS.ProcessEnv = {},
  { passwords = CHEAP_PASSWORDS, clock }: TestServiceOptions = {},
): Promise<OpenedService> {
  // Loaded on first use, because many test files only start processes.
  const [{ Service }, { runScriptedInProcess }, { loadConfig, loadSecrets }, { prepareHome }, { openLog }] =
    await Promise.all([
      import('../src/service.ts'),
      import('./support/scripted-engine/in-process.ts'),
      import('../src/config/load.ts'),
      import('../src/config/home.ts'),
      import('../src/support/log.ts'),
    ]);
  await using owned = new AsyncDisposableStack();
  const { path: home } = owned.use(await temporaryFolder(memoryFolder()));
  const file = join(home, 'sluice.yaml');
  await writeFile(file, yaml);
  const all = {
    ...process.env,
    SLUICE_HOME: join(home, 'home'),
    SLUICE_PORT: '0',
    SLUICE_CONFIG: file,
    ...env,
  };
  const config = await loadConfig(all);
  await prepareHome(config.home);
  const isNew = config.databaseUrl === null && !existsSync(join(config.home, 'sluice.db'));
  if (isNew) await createSqlite(config.home);
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const log = openLog(config.file.logLevel, destination);
  const secrets = loadSecrets(config, all);
  runScriptedInProcess();
  const service = owned.use(await Service.open({ config, secrets, env: all, log, clock, passwords }));
  const kept = owned.move();
  return {
    service,
    url: service.url,
    home: config.home,
    env: all,
    log: () => lines.join(''),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Waits until the service is ready. Rejects if a model cannot be loaded. */
export async function ready(service: Service): Promise<void> {
  const overview = () => service.router.overview();
  await until(() => {
    const models = overview();
    if (isReady(models)) return true; // Models that are not required may be down.
    for (const { state } of models.flatMap((model) => model.replicas)) {
      if (state.state === 'down' && state.retryInMs === null) throw new Error(state.reason);
    }
    return false;
  }, overview);
}

/** Timeout of `until`, in milliseconds, which only a machine that does not work reaches. */
const LONGEST_WAIT_MS = 120_000;

/**
 * Polls until the condition is true, with growing intervals because a check can cost a request or a query. If it does not
 * become true, the error shows `state`.
 */
export async function until(
  condition: () => boolean | Promise<boolean>,
  state: () => unknown = () => undefined,
): Promise<void> {
  const since = performance.now();
  while (!(await condition())) {
    const waitedMs = performance.now() - since;
    if (waitedMs > LONGEST_WAIT_MS)
      throw new Error(`timed out: ${String(condition)}\n${inspect(await state(), { depth: 6 })}`);
    await nextTurn(Math.min(50, Math.max(5, waitedMs / 10)));
  }
}

const DAY_MS = 86_400_000;

/** Waits for midnight UTC in the minute before it, so that a test that counts the usage of a day sees only one day. */
export async function awayFromMidnight(): Promise<void> {
  await until(() => Date.now() % DAY_MS < DAY_MS - 60_000);
}

function nextTurn(ms = 5): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Blocks this process, and the service in it, as if it were suspended. */
export function blockProcess(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

export interface ServiceProcess extends AsyncDisposable {
  child: ChildProcess;
  /** Without `/v1`. */
  url: string;
  home: string;
  env: NodeJS.ProcessEnv;
  stdout(): string;
  stderr(): string;
  /** Resolves with the exit code, or the signal that ended the process. */
  ended: Promise<number | NodeJS.Signals>;
}

/** The source file of the program. */
export const MAIN = join(import.meta.dirname, '..', 'src', 'main.ts');

/**
 * Starts `sluice serve` as a child process and waits until it listens. It may not be ready yet. `main` is the source file of the
 * program.
 */
export async function spawnService(
  yaml = scriptedYaml(),
  env: NodeJS.ProcessEnv = {},
  main = MAIN,
): Promise<ServiceProcess> {
  await using owned = new AsyncDisposableStack();
  const { path: folder } = owned.use(await temporaryFolder());
  const file = join(folder, 'sluice.yaml');
  await writeFile(file, yaml);
  const home = join(folder, 'home');
  const all = { ...process.env, SLUICE_HOME: home, SLUICE_PORT: '0', SLUICE_CONFIG: file, ...env };
  const args = ['--import', REGISTER, main, 'serve'];
  const child = spawn(process.execPath, args, { env: all, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once('close', (code, signal) => resolve(signal ?? code ?? 0));
  });
  owned.defer(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const output = collectOutput(child);
  const url = await listeningUrl(child, output);
  const kept = owned.move();
  return {
    child,
    url,
    home,
    env: all,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    ended,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Output of a process. */
export interface ProcessOutput {
  stdout: string;
  stderr: string;
}

/** Collects the output of a child process in the returned object. */
export function collectOutput({ stdout, stderr }: ChildProcess): ProcessOutput {
  const output = { stdout: '', stderr: '' };
  stdout?.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  stderr?.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  return output;
}

/** Resolves with the URL that a starting service prints. Rejects with its output if it ends before that. */
export function listeningUrl(child: ChildProcess, output = collectOutput(child)): Promise<string> {
  return new Promise((resolve, reject) => {
    child.stdout?.on('data', () => {
      const url = /is listening on (\S+)\n/.exec(output.stdout)?.[1];
      if (url !== undefined) resolve(url);
    });
    child.once('error', reject).once('close', (code, signal) => {
      reject(new Error(`the service ended with ${signal ?? code}:\n${output.stdout}${output.stderr}`));
    });
  });
}

export interface ProcessResult extends ProcessOutput {
  /** Exit code; 1 after a signal. */
  code: number;
}

/** A command for `cli-process.ts`. */
export interface CliCall {
  args: readonly string[];
  env: NodeJS.ProcessEnv;
}

let cliProcess: ChildProcess | null = null;
const cliCalls: PromiseWithResolvers<ProcessResult>[] = [];

/** Runs `sluice` with these arguments, in a process that all commands of this test file share. */
export function runCli(args: readonly string[], env: NodeJS.ProcessEnv): Promise<ProcessResult> {
  cliProcess ??= startCliProcess();
  const call = Promise.withResolvers<ProcessResult>();
  cliCalls.push(call);
  cliProcess.channel?.ref();
  cliProcess.send({ args, env } satisfies CliCall);
  return call.promise;
}

function startCliProcess(): ChildProcess {
  const child = fork(join(import.meta.dirname, 'cli-process.ts'), {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  child.unref();
  child.on('message', (result: ProcessResult) => {
    cliCalls.shift()?.resolve(result);
    if (cliCalls.length === 0) child.channel?.unref();
  });
  child.on('exit', (code, signal) => {
    cliProcess = null;
    for (const call of cliCalls.splice(0))
      call.reject(new Error(`a command ended its process: ${signal ?? code}`));
  });
  return child;
}

/** Runs `sluice` with these arguments in its own process. */
export function spawnCli(args: readonly string[], env: NodeJS.ProcessEnv): Promise<ProcessResult> {
  return run(process.execPath, ['--import', REGISTER, MAIN, ...args], env);
}

/** Runs a program until it exits. Rejects if it cannot be started. */
export async function run(
  program: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { input, ...options }: SpawnOptions & { input?: string } = {},
): Promise<ProcessResult> {
  // Bash reads its startup files if its input is a pipe of Node.js, which is a socket.
  const stdin = input === undefined ? 'ignore' : 'pipe';
  const child = spawn(program, args, { ...options, env, stdio: [stdin, 'pipe', 'pipe'] });
  // A program may exit before it reads its input.
  child.stdin?.on('error', () => {}).end(input);
  const output = collectOutput(child);
  const code = await new Promise<number>((resolve, reject) => {
    child.once('error', reject).once('close', (exit) => resolve(exit ?? 1));
  });
  return { ...output, code };
}

/** Sends a POST request with the test key. A body that is not a string is sent as JSON. */
export function post(
  test: TestService,
  path: string,
  body: unknown,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(test.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${test.key}`, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}

/** Returns the body of a chat request with one user message for the scripted model. */
export function chat(content: string, fields: object = {}): object {
  return { model: MODEL, messages: [{ role: 'user', content }], ...fields };
}

/** Returns the health of the first embedded engine. */
export function engineHealth({ service }: TestService): Promise<ReplicaHealth> {
  const [model] = service.embeddedReplicas;
  if (!model) throw new Error('no model is embedded');
  return model.client.health(AbortSignal.timeout(5000));
}

/** Suspends the first embedded engine, which must be a child process, until disposed, once or several times. */
export function pauseEngine({ service }: Pick<TestService, 'service'>): DisposableStack {
  const pid = service.embeddedReplicas[0]?.pid;
  if (pid == null) throw new Error('no engine is running');
  process.kill(pid, 'SIGSTOP');
  const paused = new DisposableStack();
  paused.defer(() => process.kill(pid, 'SIGCONT'));
  return paused;
}

/** Waits until this number of requests waits for a replica of the first model. */
export async function untilWaiting({ service }: TestService, count: number): Promise<void> {
  const overview = () => service.router.overview();
  await until(() => overview()[0]?.waiting === count, overview);
}

/** Waits until no request is queued or running, in the service and in all its engines. */
export async function untilIdle({ service }: TestService): Promise<void> {
  await until(
    async () => {
      const areIdle = await Promise.all(
        service.embeddedReplicas.map(async (replica) => {
          try {
            const { slotsInUse, queued } = await replica.client.health(AbortSignal.timeout(5000));
            return slotsInUse === 0 && queued === 0;
          } catch {
            // An engine that has ended runs nothing.
            return replica.state().state !== 'ready';
          }
        }),
      );
      return (
        areIdle.every(Boolean) &&
        service.router
          .overview()
          .every(({ waiting, replicas }) => waiting === 0 && replicas.every(({ inFlight }) => inFlight === 0))
      );
    },
    () => service.router.overview(),
  );
}

/** Returns the lines of the request log so far. */
export function requestLog(test: TestService): Record<string, unknown>[] {
  const lines = test
    .log()
    .split('\n')
    .filter((line) => line !== '');
  // The log writes objects.
  return lines
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ message }) => message === 'request');
}
