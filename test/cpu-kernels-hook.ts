/**
 * Preloaded into every Node of a run of `test/cpu-kernels.ts`: the engine's package resolves to the folder `package` of its
 * own address, and each process that has loaded the addon writes to the file `report` which libraries of kernels it has in
 * memory, and for which test file.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** One line of the report. */
export interface LoadedKernels {
  /** The test file that the process belongs to; empty for a probe. */
  test: string;
  /** Paths of the libraries. */
  libraries: string[];
}

const own = new URL(import.meta.url);
const folder = own.searchParams.get('package') ?? '';
const report = own.searchParams.get('report') ?? '';
const entry = pathToFileURL(join(folder, 'dist', 'index.js')).href;

// Inherited by the services and engines that a test starts.
const program = process.argv[1] ?? '';
if (program.endsWith('.test.ts')) {
  own.searchParams.set('test', program);
  process.env.NODE_OPTIONS = process.env.NODE_OPTIONS?.replace(import.meta.url, own.href);
}

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === `@node-llama-cpp/${basename(folder)}`
      ? { url: entry, shortCircuit: true }
      : next(specifier, context),
});

const dlopen = process.dlopen.bind(process);
process.dlopen = (module, file, ...flags) => {
  dlopen(module, file, ...flags);
  if (basename(file) !== 'llama-addon.node') return;
  // Its properties cannot be written: an object that inherits from it takes its place.
  const loaded = module as { exports: { init: () => unknown } };
  const addon = loaded.exports;
  // The engine calls it once the libraries are loaded.
  const init = () => {
    const mapped = readFileSync('/proc/self/maps', 'utf8').match(/\/.*libggml-cpu-.*\.so$/gm) ?? [];
    const line: LoadedKernels = {
      test: own.searchParams.get('test') ?? '',
      libraries: [...new Set(mapped)],
    };
    appendFileSync(report, `${JSON.stringify(line)}\n`);
    return addon.init();
  };
  loaded.exports = Object.create(addon, { init: { value: init } }) as typeof addon;
};
