/**
 * Runs the tests: makes what they need in `.cache/` beside the sources (the default model, a Python with the
 * official client) and the console, starts a PostgreSQL and a Valkey or Redis unless `TEST_POSTGRES_URL` and `TEST_VALKEY_URL` name
 * others, then hands the files to Node's own runner. Arguments are paths or globs of test files, or flags
 * of `node --test`. What a bare machine may lack is said and its tests are skipped; with `CI` set nothing may be.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { buildConsole } from './console/build.ts';
import { findChromium } from './console/chromium.ts';
import { hasPostgres, hasValkey, startPostgres, startValkey, type TestServer } from './server-process.ts';

const root = join(import.meta.dirname, '..');
const cache = join(root, '.cache');
const strict = Boolean(process.env.CI);
/** More than there are cores, because a file often waits for a browser, a server or a timeout. */
const FILES_AT_ONCE = Math.min(8, 4 * availableParallelism());

/** A file that never ends, as one does that leaves a process behind, ends the run after this long, in minutes. */
const LONGEST_RUN_MINUTES = 40;

const given = process.argv.slice(2);
const flags = given.filter((argument) => argument.startsWith('-'));
const chosen = given.filter((argument) => !argument.startsWith('-'));
const files = (chosen.length > 0 ? chosen : [join(root, 'test/**/*.test.ts')]).flatMap((glob) =>
  globSync(glob),
);
// Without a file Node runs every file of the folder, also those that are not tests.
if (files.length === 0) {
  console.error(`No test file matches ${chosen.join(', ')}. Flags need their value after \`=\`.`);
  process.exit(1);
}

const env = { ...process.env };
// Most of what starting a Node costs is stripping and compiling TypeScript, and the tests start hundreds.
env.NODE_COMPILE_CACHE ??= join(cache, 'compiled');
env.SLUICE_TEST_MODEL ??= defaultModel();
env.SLUICE_TEST_PYTHON ??= pythonWithClient();
demand(env.SLUICE_TEST_MODEL, 'The default model could not be fetched: the tests that need it are skipped.');
demand(
  env.SLUICE_TEST_PYTHON,
  'There is no Python 3.11 or newer with venv and pip, or the client could not be installed: its tests are skipped.',
);
demand(
  findChromium(),
  'There is no Chromium on the PATH, and CHROMIUM_PATH names none: the tests of the console are skipped.',
);
// Once for all files: two that build at the same time would spoil each other's.
buildConsole();

await using servers = new AsyncDisposableStack();
env.TEST_POSTGRES_URL ??= await start(hasPostgres(), startPostgres);
env.TEST_VALKEY_URL ??= await start(hasValkey(), startValkey);
demand(
  env.TEST_POSTGRES_URL || undefined,
  'PostgreSQL could not be started: the tests that need it are skipped.',
);
demand(
  env.TEST_VALKEY_URL || undefined,
  'There is no valkey-server or redis-server on the PATH: the tests that need it are skipped.',
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
    `The tests did not end within ${LONGEST_RUN_MINUTES} minutes. The first file named below hangs.`,
  );
  runner.kill();
}, LONGEST_RUN_MINUTES * 60_000);
// Node's own: the code, or null where a signal ended it.
const [code] = (await once(runner, 'exit')) as [number | null];
clearTimeout(timer);
process.exitCode = code ?? 1;
if (strict) {
  const skipped = readFileSync(report, 'utf8').match(/^ *ok .* # SKIP.*$/gm) ?? [];
  if (skipped.length > 0) {
    console.error(`This run may skip nothing, and it skipped:\n${skipped.join('\n')}`);
    process.exitCode = 1;
  }
}

/** Says what is missing; ends the run where nothing may be. */
function demand(found: string | undefined, missing: string): void {
  if (found !== undefined) return;
  console.error(missing);
  if (strict) process.exit(1);
}

/** Address of a server that runs as long as the tests; empty, which the tests read as none, where there is none. */
async function start(there: boolean, starting: () => Promise<TestServer>): Promise<string> {
  try {
    return there ? servers.use(await starting()).url : '';
  } catch (error) {
    console.error(error);
    return '';
  }
}

/** Path of the default model's file; undefined where no source of it can be reached. */
function defaultModel(): string | undefined {
  const home = join(cache, 'home');
  const pulled = () =>
    existsSync(join(home, 'models'))
      ? readdirSync(join(home, 'models'), { recursive: true, encoding: 'utf8' })
          .filter((file) => file.endsWith('SmolLM2-135M-Instruct.Q4_1.gguf'))
          .map((file) => join(home, 'models', file))[0]
      : undefined;
  if (pulled() === undefined) {
    const pull = [join(root, 'src/main.ts'), 'models', 'pull', 'HuggingFaceTB/SmolLM2-135M-Instruct'];
    spawnSync(process.execPath, pull, { stdio: 'inherit', env: { ...process.env, SLUICE_HOME: home } });
  }
  return pulled();
}

/** Path of a Python that has the official client, in a virtual environment; undefined where it cannot be made. */
function pythonWithClient(): string | undefined {
  const folder = join(cache, 'python');
  const python = join(folder, 'bin', 'python');
  const wanted = readFileSync(join(root, 'test/clients/requirements.txt'), 'utf8');
  // Written last: it stands only where all of it was installed.
  const installed = join(folder, 'requirements.txt');
  if (
    existsSync(installed) &&
    readFileSync(installed, 'utf8') === wanted &&
    succeeds(python, ['--version'])
  ) {
    return python;
  }
  rmSync(folder, { recursive: true, force: true });
  const requirements = join(root, 'test/clients/requirements.txt');
  if (!succeeds('python3', ['-m', 'venv', folder])) return undefined;
  if (!succeeds(python, ['-m', 'pip', 'install', '--quiet', '--requirement', requirements])) return undefined;
  writeFileSync(installed, wanted);
  return python;
}

function succeeds(program: string, args: readonly string[]): boolean {
  return spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
}
