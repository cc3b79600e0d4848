import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, unwatchFile, watchFile as pollFile } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { aborted } from 'node:util';
import type { Command } from 'commander';
import { ConfigError } from '../config/errors.ts';
import { HomeError, prepareHome } from '../config/home.ts';
import { loadConfig, loadSecrets } from '../config/load.ts';
import type { Config, ConfigFile } from '../config/schema.ts';
import { DatabaseError } from '../database/errors.ts';
import { SocketDirectoryError } from '../serving/socket-directory.ts';
import { MetricsListenError } from '../http/metrics-endpoint.ts';
import { ProxyVariableError } from '../support/proxy-agent.ts';
import { openLog, type Log, type LogDestination } from '../support/log.ts';
import { PROGRAM } from '../support/program-name.ts';
import { isReady } from '../routing/readiness.ts';
import { Service } from '../service.ts';
import { VERSION } from '../support/version.ts';
import type { ReplicaState } from '../routing/replica.ts';
import { consoleIsBuilt } from '../http/console.ts';
import { isSluice, urlOf } from './port.ts';
import { addSettings } from './settings.ts';
import { TerminalLog } from './terminal-log.ts';
import { Terminal, ProgressBar } from './progress-bar.ts';
import { welcome } from './welcome.ts';

/** Interval at which the progress of loading models is redrawn, in milliseconds. */
const REDRAW_MS = 100;

/** `sluice serve`: runs the service until a signal stops it. */
export function register(command: Command): void {
  command
    .addHelpText(
      'after',
      `
docs/configuration.md lists the fields of the configuration file. More environment variables:
  SLUICE_DATABASE_URL  PostgreSQL database (default: SQLite in the data directory)
  SLUICE_VALKEY_URL    Valkey or Redis that shares limits between instances (default: in memory)
  SLUICE_SECRET_KEY    encrypts secrets in the database (default: secret.key in the data directory)

Signals: the first SIGTERM or SIGINT lets running requests finish and then stops the service; a
second one stops it immediately. SIGHUP reloads the configuration, as does a change to the file.
Changes to plans apply immediately; all other changes require a restart.`,
    )
    .action(() => serve());
  addSettings(command, ['host', 'port', 'home', 'config']);
}

/** Runs the service until a signal stops it. `model`: the model ID passed to `sluice run`. */
export async function serve(model: string | null = null): Promise<void> {
  const stop = watchSignals();
  try {
    const load = async () => {
      const config = await loadConfig(process.env);
      return model === null ? config : withoutDefaultModel(config);
    };
    const config = await load();
    await prepareHome(config.home);
    process.exitCode = await run(config, load, model, stop);
  } catch (error) {
    if (stop.aborted && error instanceof Error && error.name === 'AbortError') return;
    console.error(await explain(error));
    process.exitCode = 1;
  }
}

/** Without a configuration file, `sluice run` serves only models that were added. */
export function withoutDefaultModel(config: Config): Config {
  return config.configPath === null ? { ...config, file: { ...config.file, models: [] } } : config;
}

async function run(
  config: Config,
  load: () => Promise<Config>,
  model: string | null,
  stop: AbortSignal,
): Promise<number> {
  const output = openOutput(config.file.logFormat);
  const log = openLog(config.file.logLevel, output.logDestination);
  if (config.file.console.enabled) await buildConsoleIfMissing((line) => console.log(line));
  await using service = await Service.open({
    config,
    secrets: loadSecrets(config, process.env),
    env: process.env,
    log,
    signal: stop,
  });
  process.once('exit', () => service.killEngines());
  using _reloading = reloadOnChange(service, config, load, log);
  console.log(`Sluice ${VERSION} is listening on ${service.localUrl}`);
  if (!(await waitUntilReady(service, stop, output, log)))
    return stop.aborted ? stoppedEarly(service, stop) : 1;
  if (!stop.aborted) {
    log.info('ready', { url: service.url });
    console.log(await welcome(service, model));
    await aborted(stop, service);
  }
  await service.drain();
  return 0;
}

/** Returns the exit code of a service that was stopped before it was ready. */
function stoppedEarly(service: Service, stop: AbortSignal): number {
  const downloads = service.router
    .overview()
    .some(({ replicas }) => replicas.some(({ state }) => state.state === 'downloading'));
  if (!downloads) return 0;
  console.error('Download interrupted. It resumes at the next start.');
  return stop.reason === 'SIGINT' ? 130 : 0;
}

interface Output {
  /** Standard output; null if it is not a terminal. */
  terminal: Terminal | null;
  /** Formats the log for people; null: the log is JSON. */
  terminalLog: TerminalLog | null;
  /** Undefined: standard error. */
  logDestination: LogDestination | undefined;
  /** Prints a line about the start. */
  print: (line: string) => void;
}

function openOutput(format: ConfigFile['logFormat']): Output {
  const { stdout, stderr } = process;
  const terminal = Terminal.of(stdout);
  // On a terminal, lines are printed above the progress bar.
  const shared = stderr.isTTY ? terminal : null;
  const print = (line: string): void => {
    if (shared) shared.print(line);
    else stderr.write(`${line}\n`);
  };
  const human = format === undefined ? stderr.isTTY : format === 'human';
  // `hasColors` is false if `NO_COLOR` is set.
  const terminalLog = human ? new TerminalLog(print, stderr.isTTY && stderr.hasColors()) : null;
  const aboveBar = shared === null ? undefined : { write: (line: string) => print(line.trimEnd()) };
  const logDestination = terminalLog ?? aboveBar;
  return { terminal, terminalLog, logDestination, print: (line) => console.log(line) };
}

/** Reloads the configuration on SIGHUP and when its file changes. An invalid file changes nothing. */
function reloadOnChange(
  service: Service,
  { configPath }: Config,
  load: () => Promise<Config>,
  log: Log,
): Disposable {
  const reload = async () => {
    try {
      await service.reload(await load());
    } catch (error) {
      if (!(error instanceof ConfigError || error instanceof DatabaseError)) throw error;
      log.error('configuration not reloaded', { error: error.message });
    }
  };
  // Reloads run one at a time, so that the newest file is applied last.
  let last = Promise.resolve();
  const onChange = () => void (last = last.then(reload));
  process.on('SIGHUP', onChange);
  const watcher = configPath === null ? null : watchFile(configPath, onChange);
  return {
    [Symbol.dispose]() {
      process.off('SIGHUP', onChange);
      watcher?.[Symbol.dispose]();
    },
  };
}

/**
 * Waits until the service is ready. Resolves to false if the service is stopped first, or if no model can be loaded; in
 * the latter case, prints the reasons.
 */
export async function waitUntilReady(
  service: Service,
  stop: AbortSignal,
  { terminal, terminalLog, print }: Pick<Output, 'terminal' | 'terminalLog' | 'print'>,
  log: Log,
): Promise<boolean> {
  using display = new StartDisplay({ terminal, log, print });
  for (;;) {
    const models = service.router.overview();
    if (isReady(models)) return true;
    if (stop.aborted) return false;
    const replicas = models.flatMap((model) => model.replicas.map(({ state }) => ({ id: model.id, state })));
    const failed = replicas.flatMap(({ id, state }) =>
      state.state === 'down' && state.retryInMs === null ? [{ id, reason: state.reason }] : [],
    );
    if (failed.length === replicas.length) {
      display[Symbol.dispose]();
      if (models.length === 0) console.error(`There is no model to serve. Add one: ${PROGRAM} run <model>`);
      for (const { id, reason } of failed) {
        const text = `Cannot serve ${id}: ${reason}`;
        const rest = terminalLog ? terminalLog.withoutPrinted(text) : `\n${text}`;
        if (rest !== '') console.error(rest);
      }
      return false;
    }
    display.draw(replicas);
    await pause(REDRAW_MS, undefined, { signal: stop }).catch(() => {});
  }
}

/**
 * A signal that arrives within this many milliseconds of the first is treated as the same one, because npm forwards
 * signals that a terminal has already sent to the whole process group.
 */
const SAME_SIGNAL_MS = 250;

/** Aborts the returned signal on the first SIGINT or SIGTERM, and exits on the second. */
function watchSignals(): AbortSignal {
  const stop = new AbortController();
  let firstMs = Infinity;
  for (const [signal, number] of [
    ['SIGINT', 2],
    ['SIGTERM', 15],
  ] as const) {
    process.on(signal, () => {
      if (performance.now() - firstMs > SAME_SIGNAL_MS) process.exit(128 + number);
      if (stop.signal.aborted) return;
      firstMs = performance.now();
      stop.abort(signal);
    });
  }
  return stop.signal;
}

/** Errors whose message contains everything that the operator needs. */
const EXPLAINED = [
  ConfigError,
  HomeError,
  DatabaseError,
  SocketDirectoryError,
  MetricsListenError,
  ProxyVariableError,
];

/** Returns the message of a startup error, with advice, or its stack if it is unexpected. */
async function explain(error: unknown): Promise<string> {
  if (!(error instanceof Error)) return String(error);
  if (EXPLAINED.some((type) => error instanceof type)) return error.message;
  const code = 'code' in error ? error.code : undefined;
  if (code === 'EADDRINUSE') {
    // Node adds the address and port to this error.
    const { address = '', port = 0 } = error as { address?: string; port?: number };
    const found = (await isSluice(address, port))
      ? `Sluice is already running on ${urlOf(address, port)}. Stop it, or set`
      : `${error.message}\nAnother program is using the port. Set`;
    return `${found} SLUICE_PORT to a free port, or to 0 to pick one.`;
  }
  if (code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND') {
    return `${error.message}\nCheck SLUICE_HOST and SLUICE_PORT.`;
  }
  return error.stack ?? error.message;
}

interface StartOutput {
  /** Null if standard output is not a terminal. */
  terminal: Terminal | null;
  /** Prints a line to standard output. */
  print(line: string): void;
  log: Log;
}

/**
 * Shows the progress of the models of a starting service. On a terminal, it shows a progress bar for downloads, and the
 * log shows the other states. Otherwise it logs downloads and prints each change of state to standard output.
 */
export class StartDisplay implements Disposable {
  readonly #output: StartOutput;
  readonly #bar: ProgressBar;
  readonly #printed = new Map<string, string>();

  constructor(output: StartOutput) {
    this.#output = output;
    this.#bar = new ProgressBar({
      terminal: output.terminal,
      onMilestone: ({ file, source, phase, receivedBytes, totalBytes }) =>
        output.log.info('downloading the model', { file, source, phase, receivedBytes, totalBytes }),
    });
  }

  draw(replicas: readonly { id: string; state: ReplicaState }[]): void {
    // Only one download is shown at a time.
    const pull = replicas.flatMap(({ state }) =>
      state.state === 'downloading' && state.pull ? [state.pull] : [],
    )[0];
    if (pull) this.#bar.update(pull);
    else this.#bar[Symbol.dispose]();
    if (this.#output.terminal === null) for (const { id, state } of replicas) this.#printState(id, state);
  }

  [Symbol.dispose](): void {
    this.#bar[Symbol.dispose]();
  }

  #printState(id: string, state: ReplicaState): void {
    const text = describeState(state);
    if (text === null || this.#printed.get(id) === text) return;
    this.#printed.set(id, text);
    this.#output.print(`${text} ${id}`);
  }
}

function describeState(state: ReplicaState): string | null {
  switch (state.state) {
    case 'downloading':
    case 'unloaded':
    case 'idle':
      return null;
    case 'loading':
      return 'Loading';
    case 'ready':
    case 'paused':
      return 'Ready:';
    case 'drained':
      return 'Drained:';
    case 'down':
      return state.retryInMs === null ? 'Cannot serve' : `Retrying (${state.reason}):`;
  }
}

const ROOT = join(import.meta.dirname, '..', '..');
const VITE = join(ROOT, 'node_modules', 'vite', 'bin', 'vite.js');

/**
 * Builds the console if it is missing, as in a clone that was installed with `--ignore-scripts`. If the build
 * fails, prints the reason; the service then runs without the console.
 */
export async function buildConsoleIfMissing(print: (line: string) => void): Promise<void> {
  if (consoleIsBuilt()) return;
  if (!existsSync(VITE)) {
    print(
      'The console is not available, because the packages that build it are not installed. Run `npm ci --omit=dev` to install them. The API works without it.',
    );
    return;
  }
  print('Building the console (first start only)');
  const args = [
    VITE,
    'build',
    'console',
    '--config',
    join('console', 'vite.config.ts'),
    '--logLevel',
    'error',
  ];
  const builder = spawn(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  builder.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  // Node documents these arguments; the code is null after a signal.
  const [code] = (await once(builder, 'close')) as [number | null];
  if (code !== 0) print(`The console could not be built. The API works without it.\n${errors.trim()}`);
}

/** Interval at which the file is checked, in milliseconds. */
const INTERVAL_MS = 1000;

/**
 * Calls `onChange` when a file is changed, replaced, recreated or deleted, until disposed. Polls, because notifications of
 * the operating system do not follow symbolic links, such as those of a Kubernetes ConfigMap, can run out, and do not
 * exist on some file systems.
 */
export function watchFile(path: string, onChange: () => void): Disposable {
  // A function of its own, because `unwatchFile` removes every listener that is the same function.
  const listener = () => onChange();
  pollFile(path, { persistent: false, interval: INTERVAL_MS }, listener);
  return { [Symbol.dispose]: () => unwatchFile(path, listener) };
}
