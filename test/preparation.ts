/** What test files need before they run. Downloads, builds and starts only what the chosen files reach. */
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildConsole } from './console/build.ts';
import { findChromium, startChromium } from './console/chromium.ts';
import { reachedFrom, ROOT, textOf } from './reached.ts';
import { DOWNLOADS } from './support/environment.ts';
import { hasPostgres, hasValkey, startPostgres, startValkey } from './support/server-process.ts';

export const CACHE = join(ROOT, '.cache');

interface Preparation {
  /** The environment variable with the result. */
  variable: string;
  /** Returns whether test files that reach these files need it. */
  isNeeded: (reached: readonly string[]) => boolean;
  /** Resolves with the value of the variable; undefined: not available. */
  prepare: (servers: AsyncDisposableStack) => Promise<string | undefined>;
  /** Why it is not available. */
  missing: string;
}

/** A file reads the variable itself, or passes its name on. */
const named = (variable: string) => (reached: readonly string[]) =>
  reached.some((file) => file !== 'test/preparation.ts' && textOf(file).includes(variable));
const reaches = (file: string) => (reached: readonly string[]) => reached.includes(file);

export const PREPARATIONS: readonly Preparation[] = [
  {
    variable: 'SLUICE_TEST_MODEL',
    isNeeded: named('SLUICE_TEST_MODEL'),
    prepare: async () => defaultModel(),
    missing: 'The default model could not be downloaded.',
  },
  {
    variable: 'SLUICE_TEST_GEMMA',
    isNeeded: named('SLUICE_TEST_GEMMA'),
    prepare: async () => (await import('./gemma-model.ts')).gemmaModel(join(CACHE, 'gemma')),
    missing: 'Gemma 3 could not be downloaded.',
  },
  {
    variable: 'SLUICE_TEST_EMBEDDING_MODEL',
    isNeeded: named('SLUICE_TEST_EMBEDDING_MODEL'),
    prepare: async () => (await import('./embedding-model.ts')).embeddingModel(join(CACHE, 'embedding')),
    missing: 'The model of embeddings could not be downloaded.',
  },
  {
    variable: 'SLUICE_TEST_PYTHON',
    isNeeded: named('SLUICE_TEST_PYTHON'),
    prepare: async () => pythonWithPackages(),
    missing: 'Python 3.11 or newer with venv and pip was not found, or its packages could not be installed.',
  },
  {
    variable: 'SLUICE_TEST_TEMPLATES',
    isNeeded: named('SLUICE_TEST_TEMPLATES'),
    prepare: async () => chatTemplates(),
    missing: 'The chat templates could not be downloaded with Python 3.',
  },
  {
    variable: 'TEST_POSTGRES_URL',
    isNeeded: reaches('test/support/servers.ts'),
    prepare: async (servers) => (hasPostgres() ? servers.use(await startPostgres()).url : undefined),
    missing: 'PostgreSQL is not available for this platform, or could not be started.',
  },
  {
    variable: 'TEST_VALKEY_URL',
    isNeeded: reaches('test/support/servers.ts'),
    prepare: async (servers) => (hasValkey() ? servers.use(await startValkey()).url : undefined),
    missing: 'Neither valkey-server nor redis-server is on the PATH, or it could not be started.',
  },
  {
    variable: 'TEST_CHROMIUM_URL',
    isNeeded: reaches('test/console/browser.ts'),
    prepare: async (servers) => (findChromium() ? servers.use(await startChromium()).url : undefined),
    missing: 'Chromium is not on the PATH, and CHROMIUM_PATH is not set; or it could not be started.',
  },
];

/**
 * Prepares what these test files need. Returns the environment variables for them, and what is missing. A variable that
 * is set already is kept; the tests that need an empty one are skipped.
 */
export async function prepare(
  files: readonly string[],
  servers: AsyncDisposableStack,
): Promise<{ variables: NodeJS.ProcessEnv; missing: string[] }> {
  const reached = [...new Set(files.flatMap((file) => [...reachedFrom(file)]))];
  // Built once for all services, which would otherwise serve an old console.
  if (reached.includes('test/harness.ts')) buildConsole();
  const variables: NodeJS.ProcessEnv = {};
  const missing: string[] = [];
  for (const { variable, isNeeded, prepare, missing: reason } of PREPARATIONS) {
    if (!isNeeded(reached) || DOWNLOADS[variable] !== undefined) continue;
    const value = await prepare(servers).catch(printError);
    if (value === undefined) missing.push(reason);
    // The tests start no server of their own where none could be started.
    variables[variable] = value ?? (variable.startsWith('SLUICE_TEST_') ? undefined : '');
  }
  return { variables, missing };
}

function printError(error: unknown): undefined {
  console.error(error);
}

/** Downloads the default model. Returns the path of its file, or undefined if no source is reachable. */
function defaultModel(): string | undefined {
  const home = join(CACHE, 'home');
  const find = () => globSync(join(home, 'models/**/*SmolLM2-135M-Instruct.Q4_1.gguf'))[0];
  const found = find();
  if (found !== undefined) return found;
  const pull = [join(ROOT, 'src/main.ts'), 'models', 'pull', 'HuggingFaceTB/SmolLM2-135M-Instruct'];
  spawnSync(process.execPath, pull, { stdio: 'inherit', env: { ...DOWNLOADS, SLUICE_HOME: home } });
  return find();
}

/** Creates a virtual environment with the packages of the tests. Returns the path of its Python, or undefined on failure. */
function pythonWithPackages(): string | undefined {
  const folder = join(CACHE, 'python');
  const python = join(folder, 'bin', 'python');
  const requirementsFile = join(ROOT, 'test/requirements.txt');
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
  const folder = join(CACHE, 'chat-templates');
  const script = join(ROOT, 'test/fetch_chat_templates.py');
  return existsSync(folder) || succeeds('python3', [script, folder]) ? folder : undefined;
}

function succeeds(program: string, args: readonly string[]): boolean {
  return spawnSync(program, args, { env: DOWNLOADS, stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
}
