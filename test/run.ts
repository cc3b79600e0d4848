/**
 * Runs test files with Node's test runner, after it has prepared what they need (`preparation.ts`).
 * Arguments are paths or globs of test files, or folders; without them, those of the option `--part`, or of `npm test` (`parts.ts`).
 * Tests whose dependencies are missing are skipped; if `CI` is set, the run fails instead.
 */
import { globSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative } from 'node:path';
import { run } from 'node:test';
import { spec as SpecReporter } from 'node:test/reporters';
import { parseArgs } from 'node:util';
import { TestDurations } from './durations.ts';
import { filesOf, PARTS, type Part } from './parts.ts';
import { CACHE, prepare } from './preparation.ts';
import { removeLeftBehind } from './support/left-behind.ts';
import { ROOT } from './reached.ts';
import { sharesProcess, shareProcesses } from './shared-process.ts';

/** Memory of a process of tests with its services, engines and browser pages: the largest, with many files, has 900 MB. */
const FILE_BYTES = 2 ** 30;

/** Exceeds the number of cores of small machines, because files spend much time waiting for browsers and servers. */
const FILES_AT_ONCE = Math.max(
  1,
  Math.min(8, 4 * availableParallelism(), Math.floor(process.availableMemory() / FILE_BYTES)),
);

/** The longest duration of a test, in milliseconds. Only a test on a machine that has stopped takes this long. */
const LONGEST_TEST_MS = 300_000;

/** Maximum duration of the run, in minutes, in case a test file never ends. */
const LONGEST_RUN_MINUTES = 40;

const { values, positionals, tokens } = parseArgs({
  options: {
    part: { type: 'string' },
    'test-concurrency': { type: 'string' },
    // Passed to Node.
    'test-name-pattern': { type: 'string', multiple: true },
    'test-skip-pattern': { type: 'string', multiple: true },
    'test-only': { type: 'boolean' },
    'test-timeout': { type: 'string' },
  },
  allowPositionals: true,
  tokens: true,
});
const files = positionals.length > 0 ? matching(positionals) : filesOf(partOf(values.part));
if (files.length === 0) throw new Error(`No test file matches ${positionals.join(', ')}.`);

const strict = Boolean(process.env.CI);
mkdirSync(CACHE, { recursive: true });
removeLeftBehind(CACHE);
// Compiling TypeScript is most of the cost of starting Node, and the tests start hundreds of processes.
process.env.NODE_COMPILE_CACHE ??= join(CACHE, 'compiled');
await using servers = new AsyncDisposableStack();
const { variables, missing } = await prepare(files, servers);
for (const reason of missing) console.error(`${reason} Its tests are skipped.`);
if (strict && missing.length > 0) process.exit(1);

const durations = new TestDurations(join(CACHE, 'durations.json'));
const abort = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => abort.abort());
const timer = setTimeout(() => {
  console.error(`The tests did not end within ${LONGEST_RUN_MINUTES} minutes.`);
  abort.abort();
}, LONGEST_RUN_MINUTES * 60_000);
const folder = mkdtempSync(join(CACHE, 'shared-'));
servers.defer(() => rmSync(folder, { recursive: true }));
const flags = flagsOfNode();
// Flags apply to each test of a file, not to a file among others.
const shared = flags.length > 0 ? [] : shareProcesses(files.filter(sharesProcess), folder);
const alone = files.filter((file) => !shared.some((process) => process.files.includes(file)));
const events = run({
  files: durations
    .longestFirst([...shared, ...alone.map((file) => ({ module: join(ROOT, file), files: [file] }))])
    .map(({ module }) => module),
  concurrency: Number(values['test-concurrency'] ?? FILES_AT_ONCE),
  execArgv: [
    `--import=${join(import.meta.dirname, 'measure.ts')}`,
    `--test-timeout=${LONGEST_TEST_MS}`,
    ...flags,
  ],
  env: { ...process.env, ...variables, SLUICE_TEST_DURATIONS: durations.report },
  cwd: ROOT,
  signal: abort.signal,
});
const skipped: string[] = [];
events.on('test:fail', ({ todo }) => {
  if (todo === undefined) process.exitCode = 1;
});
events.on('test:pass', ({ skip, name, file }) => {
  if (skip !== undefined) skipped.push(`${name} (${file})`);
});
for await (const text of events.compose(new SpecReporter())) process.stdout.write(text as string);
clearTimeout(timer);
console.log(durations.keep());
if (abort.signal.aborted) process.exitCode = 1;
if (strict && skipped.length > 0) {
  console.error(`Tests were skipped, which CI does not allow:\n${skipped.join('\n')}`);
  process.exitCode = 1;
}

/** Returns the test files that match these paths or globs. */
function matching(globs: readonly string[]): string[] {
  const paths = new Set(globs.flatMap((glob) => globSync([glob, `${glob}/**/*.test.ts`])));
  return [...paths]
    .filter((path) => path.endsWith('.test.ts'))
    .map((path) => relative(ROOT, path).replaceAll('\\', '/'));
}

function partOf(name: string | undefined): Part | 'default' | 'all' {
  if (name === undefined) return 'default';
  if (name === 'all' || name in PARTS) return name as Part | 'all'; // Checked in this line.
  throw new Error(`Unknown part: ${name}. Parts: ${[...Object.keys(PARTS), 'all'].join(', ')}.`);
}

/** Returns the given flags for the processes of the test files. */
function flagsOfNode(): string[] {
  return tokens.flatMap((token) =>
    token.kind === 'option' && token.name !== 'part' && token.name !== 'test-concurrency'
      ? [token.value === undefined ? `--${token.name}` : `--${token.name}=${token.value}`]
      : [],
  );
}
