/**
 * Runs the tests of `test/model/` whose results depend on what a model computes once for each CPU kernel library of the
 * addon that this machine can run. llama.cpp loads the best library for the CPU, so generated text can differ between
 * machines, and no test may depend on it. Each run uses a copy of the package with one library, and fails unless every
 * test file has loaded that library and no other. Linux only.
 *
 * Arguments: names of libraries (`haswell`, `sse42`), or `--count 1` for the first one that this machine can run but would
 * not select itself, starting with the most common ones. Default: all.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { packagesOf } from '../src/engine/llama/native/backend.ts';
import type { LoadedKernels } from './cpu-kernels-hook.ts';
import { temporaryFolder } from './harness.ts';
import { filesOf } from './parts.ts';
import { reachedFrom, ROOT, textOf } from './reached.ts';

/** Fast libraries that run on nearly every machine: AVX2 and AVX. Others take minutes longer. */
const COMMON = ['haswell', 'sandybridge'];

/** The library `x64` has no vector instructions and needs minutes for a prompt of 500 tokens. */
const TIMEOUT = '--test-timeout=3600000';

/**
 * Test files that give the same results with any values that a model computes: they tokenize and count, or force every
 * token that they check. All others that use a model file run with each library.
 */
const INDEPENDENT = [
  'test/model/engine-stops.test.ts',
  'test/model/memory.test.ts',
  'test/model/prompt-count.test.ts',
  'test/model/text-cuts.test.ts',
  'test/model/tool-grammar.test.ts',
];

/** Instead of the name of a library. */
const ALL = 'all';

const { values, positionals } = parseArgs({
  options: { count: { type: 'string' } },
  allowPositionals: true,
});

// The last package is the one without a GPU.
const name = packagesOf(process.platform, process.arch).at(-1) ?? '';
const original = dirname(dirname(createRequire(import.meta.url).resolve(name)));
const available = readdirSync(binaries(original)).flatMap(
  (file) => /^libggml-cpu-(.+)\.so$/.exec(file)?.[1] ?? [],
);

await using temporary = await temporaryFolder();
const selected = selectLibraries();
const files = filesOf('model');
const unknown = INDEPENDENT.filter((file) => !files.includes(file));
if (unknown.length > 0) throw new Error(`There is no ${unknown.join(', ')}.`);
const tests = files.filter((file) => !INDEPENDENT.includes(file) && generates(file));
const failed: string[] = [];
for (const library of selected) {
  console.log(`\n${library}: ${tests.length} test files`);
  using isolated = isolate(library);
  const child = spawn(process.execPath, [join(ROOT, 'test/run.ts'), TIMEOUT, ...tests], {
    cwd: ROOT,
    env: isolated.env,
    stdio: 'inherit',
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  const errors = [...(code === 0 ? [] : ['tests failed']), ...reportErrors(isolated.report(), library)];
  for (const error of errors) console.error(`${library}: ${error}`);
  if (errors.length > 0) failed.push(library);
}
console.log(`\nPassed: ${selected.filter((library) => !failed.includes(library)).join(', ') || 'none'}`);
if (failed.length > 0) console.error(`Failed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 && selected.length > 0 ? 0 : 1;

/** Returns the selected libraries that this machine can run. With `--count`, without its own: `npm test` uses that one. */
function selectLibraries(): string[] {
  const unknown = positionals.filter((library) => !available.includes(library));
  if (unknown.length > 0) {
    throw new Error(`${name} has no library ${unknown.join(', ')}. Available: ${available.join(', ')}.`);
  }
  const commonFirst = [...COMMON.filter((library) => available.includes(library)), ...available];
  const candidates = positionals.length > 0 ? positionals : [...new Set(commonFirst)];
  const own = values.count === undefined ? null : ownLibrary();
  const runnable: string[] = [];
  for (const library of candidates) {
    if (runnable.length === Number(values.count ?? Infinity)) break;
    if (library === own) continue;
    if (isRunnable(library)) runnable.push(library);
    else console.log(`${library}: not supported by this machine`);
  }
  return runnable;
}

/** Returns whether the engine starts with only this library. */
function isRunnable(library: string): boolean {
  using isolated = isolate(library);
  const { status, stderr } = loadBackend(isolated.env);
  if (status !== 0 && /no usable processor found/.test(stderr)) return false;
  const [error] = status === 0 ? libraryErrors(isolated.report(), library) : [stderr];
  if (error !== undefined) throw new Error(`${library}: ${error}`);
  return true;
}

/** Returns the library that llama.cpp selects on this machine. */
function ownLibrary(): string | undefined {
  using isolated = isolate(ALL);
  const { stderr } = loadBackend(isolated.env);
  const file = isolated.report()[0]?.libraries[0];
  if (file === undefined) throw new Error(stderr);
  return /libggml-cpu-(.+)\.so$/.exec(file)?.[1];
}

/** Starts the engine's backend in a process. */
function loadBackend(env: NodeJS.ProcessEnv) {
  const load = `import { loadBackend } from './src/engine/llama/native/backend.ts';
    import { SILENT } from './src/support/log.ts';
    await loadBackend(SILENT);`;
  return spawnSync(process.execPath, ['--input-type=module-typescript', '--eval', load], {
    cwd: ROOT,
    env,
    encoding: 'utf8',
  });
}

interface IsolatedLibrary extends Disposable {
  env: NodeJS.ProcessEnv;
  /** Returns the lines reported so far. */
  report(): LoadedKernels[];
}

/** Copies the package with only this library, or with `ALL`. The returned environment redirects Node to the copy. */
function isolate(library: string): IsolatedLibrary {
  const folder = join(temporary.path, library, basename(name));
  const report = join(temporary.path, library, 'report');
  mkdirSync(folder, { recursive: true });
  cpSync(original, folder, {
    recursive: true,
    filter: (from) =>
      library === ALL ||
      !basename(from).startsWith('libggml-cpu-') ||
      basename(from) === `libggml-cpu-${library}.so`,
  });
  const hook = pathToFileURL(join(import.meta.dirname, 'cpu-kernels-hook.ts'));
  hook.searchParams.set('package', folder);
  hook.searchParams.set('report', report);
  return {
    env: {
      ...process.env,
      NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --import ${hook.href}`,
    },
    report: () =>
      existsSync(report)
        ? readFileSync(report, 'utf8')
            .split('\n')
            .filter((line) => line !== '')
            .map((line) => JSON.parse(line) as LoadedKernels) // Written by the hook.
        : [],
    [Symbol.dispose]: () => rmSync(dirname(folder), { recursive: true, force: true }),
  };
}

/** Returns errors if the report does not show that every test file generated with this library. */
function reportErrors(report: readonly LoadedKernels[], library: string): string[] {
  const loading = new Set(report.map(({ test }) => relative(ROOT, test)));
  const idle = tests.filter((file) => !loading.has(file)).map((file) => `${file} has loaded no engine`);
  return [...libraryErrors(report, library), ...idle];
}

/** Returns errors about processes that loaded another library than the copied one. */
function libraryErrors(report: readonly LoadedKernels[], library: string): string[] {
  const only = join(binaries(join(temporary.path, library, basename(name))), `libggml-cpu-${library}.so`);
  if (report.length === 0) return ['no process has loaded the engine'];
  return report
    .filter(({ libraries }) => libraries.length !== 1 || libraries[0] !== only)
    .map(({ test, libraries }) => `${test || 'the probe'} has loaded ${libraries.join(', ') || 'none'}`);
}

function binaries(folder: string): string {
  return join(folder, 'bins', basename(name));
}

/** Returns whether a test file, or a file that it imports, uses a model file. */
function generates(file: string): boolean {
  return [...reachedFrom(file)].some((reached) => /SLUICE_TEST_(EMBEDDING_)?MODEL/.test(textOf(reached)));
}
