/**
 * Which test files run one after another in the same process, because starting a process and loading the sources costs
 * more than most of them.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { reachedFrom, ROOT, textOf } from './reached.ts';

/** Fewer than the files that run at once, so that the longest of the other files start at once too. */
const PROCESSES = 7;

/**
 * What a test file, and the files that it reaches, must not use to share its process with others: child processes and
 * threads of their own, the state of the process, and mocks or other changes of what all files see.
 */
const OWN_PROCESS = [
  /'node:(async_hooks|child_process|cluster|dgram|inspector|perf_hooks|v8|vm|worker_threads)'/,
  /\bprocess\.(?!(platform|arch|version)\b)/,
  /\b(globalThis|mock|setGlobalDispatcher)\b/,
  /\b(console|Date|JSON|Math|performance|Promise)\.\w+ = /,
  // They pause, block or end processes, or need one that is new.
  /\b(blockProcess|pauseEngine|spawnCli|spawnService)\b/,
];

/** What these do to their process is the same for all files, or affects only their child processes. */
const FIXTURES: ReadonlySet<string> = new Set([
  'test/cli-process.ts',
  'test/commands/program.ts',
  'test/engine/llama/templates.ts',
  'test/harness.ts',
  'test/support/environment.ts',
  'test/support/fast-check.ts',
  'test/support/memory-folder.ts',
  'test/support/scripted-engine/engine.ts',
  'test/support/scripted-engine/in-process.ts',
  'test/support/scripted-engine/options.ts',
  'test/support/scripted-engine/serve.ts',
  'test/support/server-process.ts',
  'test/support/servers.ts',
]);

/** Returns whether a test file can share its process with others. */
export function sharesProcess(file: string): boolean {
  return [...reachedFrom(file)].every(
    (reached) => FIXTURES.has(reached) || !OWN_PROCESS.some((pattern) => pattern.test(textOf(reached))),
  );
}

/** A module that runs test files in its process. */
export interface SharedProcess {
  /** Its path. */
  module: string;
  files: readonly string[];
}

/** Divides files that can share a process among modules, which it writes to `folder`. */
export function shareProcesses(files: readonly string[], folder: string): SharedProcess[] {
  const run = pathToFileURL(join(ROOT, 'test/run-files.ts')).href;
  return Array.from({ length: Math.min(PROCESSES, files.length) }, (_, index) => {
    // Always the same neighbors, so that a failure that one causes another can be repeated.
    const own = files.filter((_file, position) => position % PROCESSES === index);
    if (own.length === 1) return { module: join(ROOT, ...own), files: own };
    const module = join(folder, `${index + 1}.ts`);
    const list = JSON.stringify(own);
    writeFileSync(module, `import { runFiles } from '${run}';\nawait runFiles(${list});\n`);
    return { module, files: own };
  });
}
