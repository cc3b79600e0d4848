/**
 * Runs the tests with Node's test runner. First downloads three models, chat templates and a Python environment to
 * `.cache/`, builds the console, and starts PostgreSQL and Valkey or Redis unless `TEST_POSTGRES_URL` and
 * `TEST_VALKEY_URL` are set.
 * Arguments are paths or globs of test files, or flags of `node --test`. Tests whose dependencies are missing are skipped;
 * if `CI` is set, the run fails instead.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { buildConsole } from './console/build.ts';
import { findChromium, startChromium } from './console/chromium.ts';
import { embeddingModel } from './embedding-model.ts';
import { gemmaModel } from './gemma-model.ts';
import { hasPostgres, hasValkey, startPostgres, startValkey } from './support/server-process.ts';

const root = join(import.meta.dirname, '..');
const cache = join(root, '.cache');
const strict = Boolean(process.env.CI);
/** Exceeds the number of cores of small machines, because files spend much time waiting for browsers and servers. */
const FILES_AT_ONCE = Math.min(8, 4 * availableParallelism());

/** Maximum duration of the run, in minutes, in case a test file never ends. */
const LONGEST_RUN_MINUTES = 40;

const args = process.argv.slice(2);
const flags = args.filter((argument) => argument.startsWith('-'));
const globs = args.filter((argument) => !argument.startsWith('-'));
const files = (globs.length > 0 ? globs : [join(root, 'test/**/*.test.ts')]).flatMap((glob) =>
  globSync(glob),
);
// Without files, Node would run every file of the directory.
if (files.length === 0) {
  console.error(`No test file matches ${globs.join(', ')}. Separate flags and their values with \`=\`.`);
  process.exit(1);
}

const env = { ...process.env };
// Compiling TypeScript is most of the cost of starting Node, and the tests start hundreds of processes.
env.NODE_COMPILE_CACHE ??= join(cache, 'compiled');
env.SLUICE_TEST_MODEL ??= defaultModel();
env.SLUICE_TEST_GEMMA ??= await gemmaModel(join(cache, 'gemma')).catch(printError);
env.SLUICE_TEST_EMBEDDING_MODEL ??= await embeddingModel(join(cache, 'embedding')).catch(printError);
env.SLUICE_TEST_PYTHON ??= pythonWithPackages();
env.SLUICE_TEST_TEMPLATES ??= chatTemplates();
requireOrSkip(env.SLUICE_TEST_MODEL, 'The default model could not be downloaded. Its tests are skipped.');
requireOrSkip(env.SLUICE_TEST_GEMMA, 'Gemma 3 could not be downloaded. Its tests are skipped.');
requireOrSkip(
  env.SLUICE_TEST_EMBEDDING_MODEL,
  'The model of embeddings could not be downloaded. Its tests are skipped.',
);
requireOrSkip(
  env.SLUICE_TEST_PYTHON,
  'Python 3.11 or newer with venv and pip was not found, or its packages could not be installed. Its tests are skipped.',
);
requireOrSkip(
  env.SLUICE_TEST_TEMPLATES,
  'The chat templates could not be downloaded with Python 3. Their tests are skipped.',
);
requireOrSkip(
  findChromium(),
  'Chromium is not on the PATH, and CHROMIUM_PATH is not set. The console tests are skipped.',
);
// Built once for all test files, which would otherwise build concurrently.
buildConsole();

await using servers = new AsyncDisposableStack();
env.TEST_POSTGRES_URL ??= await start(hasPostgres(), startPostgres);
env.TEST_VALKEY_URL ??= await start(hasValkey(), startValkey);
const needsBrowser = files.some((file) => resolve(file).startsWith(join(root, 'test/console/')));
env.TEST_CHROMIUM_URL ??= await start(needsBrowser && findChromium() !== undefined, startChromium);
requireOrSkip(env.TEST_POSTGRES_URL || undefined, 'PostgreSQL could not be started. Its tests are skipped.');
requireOrSkip(
  env.TEST_VALKEY_URL || undefined,
  'Neither valkey-server nor redis-server is on the PATH. Their tests are skipped.',
);

mkdirSync(cache, { recursive: true });
const report = join(cache, 'tests.tap');
const reporters = ['--test-reporter=spec', '--test-reporter-destination=stdout'];
if (strict) reporters.push('--test-reporter=tap', `--test-reporter-destination=${report}`);

const runner = spawn(
  process.execPath,
  [
    '--test',
    `--test-concurrency=${FILES_AT_ONCE}`,
    '--test-timeout=300000',
    ...reporters,
    ...flags,
    ...files,
  ],
  { stdio: 'inherit', env },
);
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => runner.kill(signal));
const timer = setTimeout(() => {
  console.error(
    `The tests did not end within ${LONGEST_RUN_MINUTES} minutes. The first file reported below was still running.`,
  );
  runner.kill();
}, LONGEST_RUN_MINUTES * 60_000);
// Node documents these arguments; the code is null after a signal.
const [code] = (await once(runner, 'exit')) as [number | null];
clearTimeout(timer);
process.exitCode = code ?? 1;
if (strict) {
  const skipped = readFileSync(report, 'utf8').match(/^ *ok .* # SKIP.*$/gm) ?? [];
  if (skipped.length > 0) {
    console.error(`Tests were skipped, which CI does not allow:\n${skipped.join('\n')}`);
    process.exitCode = 1;
  }
}

/** Reports a missing dependency. Exits if `CI` does not allow skipping. */
function requireOrSkip(found: string | undefined, message: string): void {
  if (found !== undefined) return;
  console.error(message);
  if (strict) process.exit(1);
}

/** Prints the error of an optional step. */
function printError(error: unknown): undefined {
  console.error(error);
}

/** Starts a server for the duration of the tests. Resolves with its URL, or an empty string, which skips its tests. */
async function start(
  available: boolean,
  startServer: () => Promise<{ url: string } & AsyncDisposable>,
): Promise<string> {
  try {
    return available ? servers.use(await startServer()).url : '';
  } catch (error) {
    console.error(error);
    return '';
  }
}

/** Downloads the default model. Returns the path of its file, or undefined if no source is reachable. */
function defaultModel(): string | undefined {
  const home = join(cache, 'home');
  const modelFile = () =>
    existsSync(join(home, 'models'))
      ? readdirSync(join(home, 'models'), { recursive: true, encoding: 'utf8' })
          .filter((file) => file.endsWith('SmolLM2-135M-Instruct.Q4_1.gguf'))
          .map((file) => join(home, 'models', file))[0]
      : undefined;
  if (modelFile() === undefined) {
    const pull = [join(root, 'src/main.ts'), 'models', 'pull', 'HuggingFaceTB/SmolLM2-135M-Instruct'];
    spawnSync(process.execPath, pull, { stdio: 'inherit', env: { ...process.env, SLUICE_HOME: home } });
  }
  return modelFile();
}

/** Creates a virtual environment with the packages of the tests. Returns the path of its Python, or undefined on failure. */
function pythonWithPackages(): string | undefined {
  const folder = join(cache, 'python');
  const python = join(folder, 'bin', 'python');
  const requirementsFile = join(root, 'test/requirements.txt');
  const requirements = readFileSync(requirementsFile, 'utf8');
  // Written after a successful installation.
  const marker = join(folder, 'requirements.txt');
  const isCurrent = existsSync(marker) && readFileSync(marker, 'utf8') === requirements;
  if (isCurrent && succeeds(python, ['--version'])) return python;
  rmSync(folder, { recursive: true, force: true });
  if (!succeeds('python3', ['-m', 'venv', folder])) return undefined;
  const install = ['-m', 'pip', 'install', '--quiet', '--requirement', requirementsFile];
  if (!succeeds(python, install)) return undefined;
  writeFileSync(marker, requirements);
  return python;
}

/** Downloads the chat templates that llama.cpp is tested with. Returns their folder, or undefined on failure. */
function chatTemplates(): string | undefined {
  const folder = join(cache, 'chat-templates');
  const script = join(root, 'test/fetch_chat_templates.py');
  return existsSync(folder) || succeeds('python3', [script, folder]) ? folder : undefined;
}

function succeeds(program: string, args: readonly string[]): boolean {
  return spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
}
