/**
 * Breaks lines of the source, one at a time, and lists the mutants that no test catches. Works on a copy of the sources.
 *
 *   npm run test:mutation                       60 mutants in all areas
 *   npm run test:mutation -- --area routing     mutants in one area
 *   npm run test:mutation -- --count 20 --seed 7
 *   npm run test:mutation -- --only src/routing/router.ts:91
 *
 * The same seed selects the same mutants. Runs the tests without a mutant first. Exits with 1 if a mutant survives, and with 2
 * if a test fails without one.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { Random } from '../../test/support/random.ts';
import { startPostgres, startValkey } from '../../test/support/server-process.ts';
import { mutantsOf, mutate, type Mutant } from './mutants.ts';

interface Area {
  sources: string;
  /** Globs of the tests that must catch the mutants, the most specific first. */
  tests: readonly string[];
}

const AREAS: Readonly<Record<string, Area>> = {
  inference: {
    sources: 'src/inference/*.ts',
    tests: [
      'test/inference/*.test.ts',
      'test/http/{admission,queue,streams,limits}.test.ts',
      'test/http/transcripts.test.ts',
      'test/faults/engine.test.ts',
    ],
  },
  ledger: {
    sources: 'src/accounts/ledger/*.ts',
    tests: ['test/accounts/ledger/*.test.ts', 'test/database/reports.test.ts', 'test/faults/storage.test.ts'],
  },
  limits: {
    sources: 'src/accounts/limits/*.ts',
    tests: ['test/accounts/limits/*.test.ts', 'test/http/limits.test.ts'],
  },
  routing: {
    sources: 'src/routing/*.ts',
    tests: ['test/routing/*.test.ts', 'test/inference/*.test.ts', 'test/http/queue.test.ts'],
  },
  scheduler: {
    sources:
      'src/engine/llama/{decode/{scheduler,step-planner,slots,job,draft-plan},output/choice-output,conversations/common-prefix}.ts',
    tests: ['test/engine/llama/{step,prefix-cache,choice-output,draft}.test.ts', 'test/model/*.test.ts'],
  },
};

/** Timeout of a test file in milliseconds. A mutant that makes a test hang is caught. */
const TEST_TIMEOUT_MS = 180_000;

const { values } = parseArgs({
  options: {
    area: { type: 'string' },
    count: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
    only: { type: 'string' },
  },
});

const root = join(import.meta.dirname, '..', '..');
const copy = mkdtempSync(join(tmpdir(), 'sluice-mutation-'));
process.on('exit', () => rmSync(copy, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130));
for (const part of ['src', 'test', 'console', 'docs', 'torture', 'package.json', 'config.example.yaml']) {
  cpSync(join(root, part), join(copy, part), { recursive: true });
}
symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));

await using servers = new AsyncDisposableStack();
const env: NodeJS.ProcessEnv = { ...process.env };
env.TEST_POSTGRES_URL ??= servers.use(await startPostgres()).url;
env.TEST_VALKEY_URL ??= servers.use(await startValkey()).url;
env.SLUICE_TEST_MODEL ??= globSync(join(root, '.cache/home/models/**/*.gguf'))[0];
env.SLUICE_TEST_GEMMA ??= globSync(join(root, '.cache/gemma/*.gguf'))[0];

const chosen = choose();
// Otherwise, a test that always fails would seem to catch every mutant.
const failing: string[] = [];
const baseline = new Set(chosen.flatMap(({ mutant, area }) => testFiles(mutant, area)));
for (const file of baseline) if (!(await passes(file))) failing.push(file);
if (failing.length > 0) {
  console.error(`Without a mutant, these tests fail:\n${failing.join('\n')}`);
  process.exit(2);
}
console.log(`Without a mutant, all ${baseline.size} test files pass.`);

const survivors: Mutant[] = [];
for (const [index, { mutant, area }] of chosen.entries()) {
  const killer = await killedBy(mutant, area);
  if (killer === null) survivors.push(mutant);
  console.log(
    `${index + 1}/${chosen.length} ${killer === null ? 'SURVIVED' : 'killed  '} ${mutant.file}:${mutant.line} ` +
      `${mutant.operator}${killer === null ? '' : ` (${killer})`}`,
  );
}

console.log(`\n${chosen.length - survivors.length} of ${chosen.length} mutants were caught by a test.`);
for (const { file, line, operator, before, after } of survivors) {
  console.log(`\n${file}:${line} ${operator}\n  - ${before.trim()}\n  + ${after.trim()}`);
}
process.exitCode = survivors.length > 0 ? 1 : 0;

/** Returns the mutants to try: those of the line in `--only`, or equally many random ones of each area. */
function choose(): { mutant: Mutant; area: Area }[] {
  const names = values.area === undefined ? Object.keys(AREAS) : [values.area];
  const random = new Random(Number(values.seed));
  return names.flatMap((name) => {
    const area = AREAS[name];
    if (area === undefined)
      throw new RangeError(`Unknown area: ${name}. Areas: ${Object.keys(AREAS).join(', ')}.`);
    const all = globSync(area.sources, { cwd: root })
      .toSorted()
      .flatMap((file) => mutantsOf(file, readFileSync(join(root, file), 'utf8')));
    const picked =
      values.only === undefined
        ? draw(all, Math.ceil(Number(values.count) / names.length), random.fork(name))
        : all.filter(({ file, line }) => `${file}:${line}` === values.only);
    return picked.map((mutant) => ({ mutant, area }));
  });
}

/** Draws up to `count` random mutants, at most one per line. */
function draw(all: readonly Mutant[], count: number, random: Random): Mutant[] {
  const left = [...all];
  const picked: Mutant[] = [];
  while (picked.length < count && left.length > 0) {
    const [mutant] = left.splice(random.between(0, left.length - 1), 1);
    if (mutant && !picked.some(({ file, line }) => file === mutant.file && line === mutant.line)) {
      picked.push(mutant);
    }
  }
  return picked;
}

/** Returns the name of the first test file that fails with this mutant; null: all pass. */
async function killedBy(mutant: Mutant, area: Area): Promise<string | null> {
  const source = readFileSync(join(root, mutant.file), 'utf8');
  const target = join(copy, mutant.file);
  writeFileSync(target, mutate(source, mutant));
  try {
    for (const file of testFiles(mutant, area)) {
      if (!(await passes(file))) return basename(file);
    }
    return null;
  } finally {
    writeFileSync(target, source);
  }
}

/** Returns the test files of the area, starting with those named like the source. */
function testFiles(mutant: Mutant, area: Area): string[] {
  const files = area.tests.flatMap((glob) => globSync(glob, { cwd: copy }).toSorted());
  const name = basename(mutant.file, '.ts');
  return [
    ...files.filter((file) => basename(file).startsWith(name)),
    ...files.filter((file) => !basename(file).startsWith(name)),
  ];
}

async function passes(file: string): Promise<boolean> {
  const run = spawn(process.execPath, ['--test', '--test-force-exit', file], {
    cwd: copy,
    env,
    stdio: 'ignore',
    detached: true,
  });
  // Kills the process group, because a test that hangs may have started other processes.
  const end = () => {
    if (run.pid !== undefined && run.exitCode === null) process.kill(-run.pid, 'SIGKILL');
  };
  const limit = setTimeout(end, TEST_TIMEOUT_MS);
  process.once('exit', end);
  // Node documents these arguments; the code is null after a signal.
  const [code] = (await once(run, 'exit')) as [number | null];
  process.removeListener('exit', end);
  clearTimeout(limit);
  return code === 0;
}
