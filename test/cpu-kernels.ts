/**
 * Runs every test that generates with llama.cpp once for each library of CPU kernels that the addon's package carries and this
 * machine can execute. llama.cpp loads the best library for the CPU, so a text may differ from machine to machine, and no
 * test may depend on it. Each run is offered a copy of the package with one library, and fails unless every test file has
 * loaded that one and no other. Linux only.
 *
 * Arguments: names of libraries (`haswell`, `sse42`), or `--count 2` for the first two that this machine can execute,
 * beginning with those that nearly every machine can; none: all.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { packagesOf } from '../src/engine/llama/backend.ts';
import type { LoadedKernels } from './cpu-kernels-hook.ts';
import { temporaryFolder } from './harness.ts';

const ROOT = join(import.meta.dirname, '..');

/** Two that differ, are fast, and run on nearly every machine: AVX2, and AVX alone. Those without either take minutes more. */
const COMMON = ['haswell', 'sandybridge'];

/** The library `x64` has no vector instructions: under it a prompt of 500 tokens takes minutes. */
const TIMEOUT = '--test-timeout=3600000';

/** Test files that name the model and generate nothing. */
const GENERATE_NOTHING = ['test/models/store.test.ts'];

const { values, positionals } = parseArgs({
  options: { count: { type: 'string' } },
  allowPositionals: true,
});

// The last is the one without a GPU.
const name = packagesOf(process.platform, process.arch).at(-1) ?? '';
const original = dirname(dirname(createRequire(import.meta.url).resolve(name)));
const carried = readdirSync(binaries(original)).flatMap(
  (file) => /^libggml-cpu-(.+)\.so$/.exec(file)?.[1] ?? [],
);

await using temporary = await temporaryFolder();
const chosen = choose();
const tests = globSync('test/**/*.test.ts', { cwd: ROOT }).filter(generates).toSorted();
const failed: string[] = [];
for (const library of chosen) {
  console.log(`\n${library}: ${tests.length} test files`);
  using offer = offerOnly(library);
  // Its own output says which tests failed, and so does this one's end.
  const child = spawn(process.execPath, [join(ROOT, 'test/run.ts'), TIMEOUT, ...tests], {
    cwd: ROOT,
    env: offer.env,
    stdio: 'inherit',
  });
  const [code] = (await once(child, 'exit')) as [number | null];
  const faults = [...(code === 0 ? [] : ['its tests failed']), ...faultsOf(offer.report(), library)];
  for (const fault of faults) console.error(`${library}: ${fault}`);
  if (faults.length > 0) failed.push(library);
}
console.log(`\nPassed: ${chosen.filter((library) => !failed.includes(library)).join(', ') || 'none'}`);
if (failed.length > 0) console.error(`Failed: ${failed.join(', ')}`);
process.exitCode = failed.length === 0 && chosen.length > 0 ? 0 : 1;

/** The libraries to run with, of those that this machine can execute. */
function choose(): string[] {
  const unknown = positionals.filter((library) => !carried.includes(library));
  if (unknown.length > 0) throw new Error(`${name} carries ${carried.join(', ')}; not ${unknown.join(', ')}`);
  const commonFirst = [...COMMON.filter((library) => carried.includes(library)), ...carried];
  const wanted = positionals.length > 0 ? positionals : [...new Set(commonFirst)];
  const executable: string[] = [];
  for (const library of wanted) {
    if (executable.length === Number(values.count ?? Infinity)) break;
    if (isExecutable(library)) executable.push(library);
    else console.log(`${library}: this machine cannot execute it`);
  }
  return executable;
}

/** Whether the engine starts with this library alone. */
function isExecutable(library: string): boolean {
  using offer = offerOnly(library);
  const load = `import { loadBackend } from './src/engine/llama/backend.ts';
    import { SILENT } from './src/log.ts';
    await loadBackend(SILENT);`;
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module-typescript', '--eval', load], {
    cwd: ROOT,
    env: offer.env,
    encoding: 'utf8',
  });
  if (status !== 0 && /no usable processor found/.test(stderr)) return false;
  const [fault] = status === 0 ? libraryFaults(offer.report(), library) : [stderr];
  if (fault !== undefined) throw new Error(`${library}: ${fault}`);
  return true;
}

interface Offer extends Disposable {
  env: NodeJS.ProcessEnv;
  /** What has been reported so far. */
  report(): LoadedKernels[];
}

/** A copy of the package with this library as the only one, and the environment in which Node finds it. */
function offerOnly(library: string): Offer {
  const folder = join(temporary.path, library, basename(name));
  const report = join(temporary.path, library, 'report');
  mkdirSync(folder, { recursive: true });
  cpSync(original, folder, {
    recursive: true,
    filter: (from) =>
      !basename(from).startsWith('libggml-cpu-') || basename(from) === `libggml-cpu-${library}.so`,
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

/** Why a report does not prove that each test file generated with this library. */
function faultsOf(report: readonly LoadedKernels[], library: string): string[] {
  const loading = new Set(report.map(({ test }) => relative(ROOT, test)));
  const idle = tests.filter((file) => !loading.has(file)).map((file) => `${file} has loaded no engine`);
  return [...libraryFaults(report, library), ...idle];
}

/** Processes that have loaded another library than this one of the copied package. */
function libraryFaults(report: readonly LoadedKernels[], library: string): string[] {
  const only = join(binaries(join(temporary.path, library, basename(name))), `libggml-cpu-${library}.so`);
  if (report.length === 0) return ['no process has loaded the engine'];
  return report
    .filter(({ libraries }) => libraries.length !== 1 || libraries[0] !== only)
    .map(({ test, libraries }) => `${test || 'the probe'} has loaded ${libraries.join(', ') || 'none'}`);
}

function binaries(folder: string): string {
  return join(folder, 'bins', basename(name));
}

/** Whether a test file, or a file of the tests that it imports, names the model. */
function generates(file: string): boolean {
  if (GENERATE_NOTHING.includes(file)) return false;
  const reached = new Set([join(ROOT, file)]);
  // Grows while it is gone through.
  for (const from of reached) {
    const text = readFileSync(from, 'utf8');
    if (text.includes('SLUICE_TEST_MODEL')) return true;
    for (const [, specifier = ''] of text.matchAll(/from '(\.[^']+\.ts)'/g)) {
      const to = resolve(dirname(from), specifier);
      // Some tests have such text in a string.
      if (to.startsWith(join(ROOT, 'test/')) && existsSync(to)) reached.add(to);
    }
  }
  return false;
}
