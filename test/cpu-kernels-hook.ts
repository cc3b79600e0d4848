/**
 * Preloaded into every Node process of `test/cpu-kernels.ts`. Redirects the addon's package to the directory in the query
 * parameter `package` of this module's URL. Each process that loads the addon appends its test file and its loaded kernel
 * libraries to the file `report`.
 */
import { appendFileSync, readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** A line of the report. */
export interface LoadedKernels {
  /** The test file; empty for a probe. */
  test: string;
  /** Paths of the libraries. */
  libraries: string[];
}

const hookUrl = new URL(import.meta.url);
const folder = hookUrl.searchParams.get('package') ?? '';
const report = hookUrl.searchParams.get('report') ?? '';
const entry = pathToFileURL(join(folder, 'dist', 'index.js')).href;

// Inherited by the services and engines that a test starts.
const program = process.argv[1] ?? '';
if (program.endsWith('.test.ts')) {
  hookUrl.searchParams.set('test', program);
  process.env.NODE_OPTIONS = process.env.NODE_OPTIONS?.replace(import.meta.url, hookUrl.href);
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
  // The properties of the addon are read-only, so an object that inherits from it replaces it.
  const loaded = module as { exports: { init: () => unknown } };
  const addon = loaded.exports;
  // The engine calls `init` after it has loaded the libraries.
  const init = () => {
    const mapped = readFileSync('/proc/self/maps', 'utf8').match(/\/.*libggml-cpu-.*\.so$/gm) ?? [];
    const line: LoadedKernels = {
      test: hookUrl.searchParams.get('test') ?? '',
      libraries: [...new Set(mapped)],
    };
    appendFileSync(report, `${JSON.stringify(line)}\n`);
    return addon.init();
  };
  loaded.exports = Object.create(addon, { init: { value: init } }) as typeof addon;
};
