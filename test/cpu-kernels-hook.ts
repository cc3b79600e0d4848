/**
 * Preloaded into every Node of a run of `test/cpu-kernels.ts`: the engine's package resolves to the folder
 * `SLUICE_KERNELS_PACKAGE`, and each process that has loaded the addon writes to `SLUICE_KERNELS_REPORT` which libraries of
 * kernels it has in memory, and for which test file.
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

const folder = process.env.SLUICE_KERNELS_PACKAGE ?? '';
const report = process.env.SLUICE_KERNELS_REPORT ?? '';
const entry = pathToFileURL(join(folder, 'dist', 'index.js')).href;

// Inherited by the services and engines that a test starts.
const program = process.argv[1] ?? '';
if (program.endsWith('.test.ts')) process.env.SLUICE_KERNELS_TEST = program;

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
      test: process.env.SLUICE_KERNELS_TEST ?? '',
      libraries: [...new Set(mapped)],
    };
    appendFileSync(report, `${JSON.stringify(line)}\n`);
    return addon.init();
  };
  loaded.exports = Object.create(addon, { init: { value: init } }) as typeof addon;
};
