import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import type { KeyClock } from '../src/accounts/keys.ts';
import { prepareHome } from '../src/config/home.ts';
import { loadConfig, loadSecrets } from '../src/config/load.ts';
import type { EngineHealth } from '../src/engine/engine.ts';
import type { PasswordHasher } from '../src/identity/password.ts';
import { openLog } from '../src/log.ts';
import { isReady } from '../src/routing/readiness.ts';
import { Service } from '../src/service.ts';

/** The model that the scripted engine plays in tests. */
export const MODEL = 'test/scripted';

/** A configuration with that model; `engine` are the scripted engine's own options. */
export function scriptedYaml(engine: object = {}, rest = ''): string {
  return `models:\n  - id: ${MODEL}\n    engine:\n      file: 'scripted:${JSON.stringify(engine)}'\n${rest}`;
}

export interface OpenedService extends AsyncDisposable {
  service: Service;
  url: string;
  home: string;
  /** With it a command works on the same home. */
  env: NodeJS.ProcessEnv;
  /** Everything written to the log so far. */
  log(): string;
}

export interface TestService extends OpenedService {
  /** A key that callers may use. */
  key: string;
}

/** A folder that goes away with the test. */
export async function temporaryFolder(): Promise<{ path: string } & AsyncDisposable> {
  const path = await mkdtemp(join(tmpdir(), 'sluice-test-'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

/** A clock that stands still until a test moves it. */
export class HeldClock implements KeyClock {
  unix = Date.now();
  up = 0;
  now = () => this.unix;
  elapsed = () => this.up;

  advance(ms: number): void {
    this.unix += ms;
    this.up += ms;
  }
}

/** scrypt would take most of the processor time of every test that signs somebody in. */
const CHEAP_PASSWORDS: PasswordHasher = {
  hash: async (password) => createHash('sha256').update(password).digest('hex'),
  verify: async (hash, password) => hash === createHash('sha256').update(password).digest('hex'),
};

/** Starts the service in this process, on a free port and a fresh home, and waits until it is ready. */
export async function startService(
  yaml = scriptedYaml(),
  env: NodeJS.ProcessEnv = {},
  clock?: KeyClock,
  passwords?: PasswordHasher,
): Promise<TestService> {
  await using owned = new AsyncDisposableStack();
  const opened = owned.use(await openService(yaml, env, clock, passwords));
  await ready(opened.service);
  const { key } = await opened.service.keys.create({ name: 'test' });
  const kept = owned.move();
  return { ...opened, key: key.reveal(), [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** As `startService`, without waiting for its models and without any key: as a first start leaves it. */
export async function openService(
  yaml = scriptedYaml(),
  env: NodeJS.ProcessEnv = {},
  clock?: KeyClock,
  passwords: PasswordHasher = CHEAP_PASSWORDS,
): Promise<OpenedService> {
  await using owned = new AsyncDisposableStack();
  const { path: home } = owned.use(await temporaryFolder());
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
  const lines: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      lines.push(String(chunk));
      done();
    },
  });
  const log = openLog(config.file.logLevel, destination);
  const secrets = loadSecrets(config, all);
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

/** Resolves when the service can generate; rejects when one of its models never will. */
export async function ready(service: Service): Promise<void> {
  for (;;) {
    const models = service.router.overview();
    if (isReady(models)) return;
    for (const { state } of models.flatMap((model) => model.replicas)) {
      if (state.state === 'down' && state.retryInMs === null) throw new Error(state.reason);
    }
    await nextTurn();
  }
}

/** What takes longer than this never comes, in milliseconds: a test that waits for it fails and says so. */
const LONGEST_WAIT_MS = 120_000;

/** Waits until `condition` holds. Looks less often the longer it waits: a look may cost a request or a query. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const since = performance.now();
  while (!(await condition())) {
    const waitedMs = performance.now() - since;
    if (waitedMs > LONGEST_WAIT_MS) throw new Error(`it never came that ${String(condition)}`);
    await nextTurn(Math.min(50, Math.max(5, waitedMs / 10)));
  }
}

function nextTurn(ms = 5): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Blocks this process, and the service in it, as a suspended or starved one is. */
export function standStill(ms: number): void {
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
  /** Exit code, or the signal that ended it. */
  ended: Promise<number | NodeJS.Signals>;
}

/** The program, to be run by Node. */
export const MAIN = join(import.meta.dirname, '..', 'src', 'main.ts');

/** Starts `sluice serve` as a process of its own and waits until it listens; it need not be ready yet. */
export async function spawnService(
  yaml = scriptedYaml(),
  env: NodeJS.ProcessEnv = {},
): Promise<ServiceProcess> {
  await using owned = new AsyncDisposableStack();
  const { path: folder } = owned.use(await temporaryFolder());
  const file = join(folder, 'sluice.yaml');
  await writeFile(file, yaml);
  const home = join(folder, 'home');
  const all = { ...process.env, SLUICE_HOME: home, SLUICE_PORT: '0', SLUICE_CONFIG: file, ...env };
  const child = spawn(process.execPath, [MAIN, 'serve'], { env: all, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once('close', (code, signal) => resolve(signal ?? code ?? 0));
  });
  owned.defer(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  let stdout = '';
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const url = new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      stdout += `${line}\n`;
      const listens = /is listening on (\S+)/.exec(line)?.[1];
      if (listens) resolve(listens);
    });
    void ended.then((how) => reject(new Error(`the service ended with ${how}:\n${stdout}${stderr}`)));
  });
  const found = await url;
  const kept = owned.move();
  return {
    child,
    url: found,
    home,
    env: all,
    stdout: () => stdout,
    stderr: () => stderr,
    ended,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

export interface Ended {
  /** Exit code; 1 where a signal ended it. */
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs `sluice` with these arguments to its end. */
export function runCli(args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ended> {
  return run(process.execPath, [MAIN, ...args], env);
}

/** Runs a program to its end. */
export async function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<Ended> {
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const code = await new Promise<number>((resolve) => child.once('close', (exit) => resolve(exit ?? 1)));
  return { code, stdout, stderr };
}

/** Calls the service with its test key; `body` is sent as JSON, or as it is where it is a string. */
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

/** A chat request of one user message to the scripted model. */
export function chat(content: string, fields: object = {}): object {
  return { model: MODEL, messages: [{ role: 'user', content }], ...fields };
}

/** What the engine of the first embedded model says of itself. */
export function engineHealth({ service }: TestService): Promise<EngineHealth> {
  const [model] = service.models;
  if (!model) throw new Error('no model is embedded');
  return model.engine.health(AbortSignal.timeout(5000));
}

/** Resolves when no request runs or waits, neither here nor in the engine: everything was given back. */
export async function atRest(test: TestService): Promise<void> {
  await until(async () => {
    const { slotsInUse, queued } = await engineHealth(test);
    const counts = test.service.router.overview().map(({ waiting, replicas }) => {
      return waiting + replicas.reduce((sum, { inFlight }) => sum + inFlight, 0);
    });
    return slotsInUse === 0 && queued === 0 && counts.every((count) => count === 0);
  });
}

/** The lines of the request log so far. */
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
