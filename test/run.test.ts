import assert from 'node:assert/strict';
import { existsSync, globSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { run, temporaryFolder } from './harness.ts';
import { filesOf, PARTS, SMOKE, type Part } from './parts.ts';
import { PREPARATIONS } from './preparation.ts';
import { reachedFrom, ROOT, textOf } from './reached.ts';
import { sharesProcess, shareProcesses } from './shared-process.ts';

const all = filesOf('all');

/** Runs the test runner with these arguments, as a person does. */
function runTests(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const inherited = { ...process.env, NODE_TEST_CONTEXT: undefined, CI: undefined };
  return run(process.execPath, [join(ROOT, 'test/run.ts'), ...args], { ...inherited, ...env });
}

function neededBy(file: string): string[] {
  const reached = [...reachedFrom(file)];
  return PREPARATIONS.filter(({ isNeeded }) => isNeeded(reached)).map(({ variable }) => variable);
}

test('npm test and the commands of the parts together run all test files', () => {
  const parts = Object.keys(PARTS) as Part[]; // The keys of a constant.
  const run = ['default' as const, ...parts].flatMap((part) => filesOf(part));
  const smoke = SMOKE.filter((file) => all.includes(file));
  assert.deepEqual(run.toSorted(), [...all, ...smoke].toSorted());
  assert.deepEqual(smoke, SMOKE);
  for (const part of parts) assert.ok(filesOf(part).length > 1, part);
});

test('a test file needs the models, servers and programs that it or a file that it imports uses', () => {
  assert.deepEqual(neededBy('test/nearest.test.ts'), []);
  assert.deepEqual(neededBy('test/log.test.ts'), []);
  assert.ok(neededBy('test/model/memory.test.ts').includes('SLUICE_TEST_MODEL'));
  assert.deepEqual(neededBy('test/database/partitions.test.ts'), ['TEST_POSTGRES_URL', 'TEST_VALKEY_URL']);
  assert.ok(neededBy('test/console/keys.test.ts').includes('TEST_CHROMIUM_URL'));
});

test('every variable that a test reads is prepared, or selects something and has a default', () => {
  const selecting = ['SLUICE_TEST_DURATIONS', 'SLUICE_TEST_RUNS', 'SLUICE_TEST_SEED', 'SLUICE_TEST_STREAMS'];
  const known = new Set([...selecting, ...PREPARATIONS.map(({ variable }) => variable)]);
  const read = all.flatMap((file) =>
    [...reachedFrom(file)].flatMap((reached) =>
      [...textOf(reached).matchAll(/process\.env(?:\.|\[')((?:SLUICE_)?TEST_\w+)/g)].map(
        ([, name = '']) => name,
      ),
    ),
  );
  assert.deepEqual(
    [...new Set(read)].filter((name) => !known.has(name)),
    [],
  );
  assert.ok(read.includes('SLUICE_TEST_MODEL'));
});

test('a file that needs nothing runs alone, and its duration is kept', async () => {
  const { code, stdout, stderr } = await runTests(['test/nearest.test.ts', '--test-name-pattern=misspelled']);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /pass 1\n/);
  assert.match(stdout, /slowest of 1 files.*\n.* test\/nearest\.test\.ts\n/);
  assert.ok(existsSync(join(ROOT, '.cache/durations.json')));
});

test('a failed test fails the run, and so does a skipped one if CI is set', async () => {
  await using folder = await temporaryFolder();
  const file = async (name: string, body: string) => {
    const path = join(folder.path, name);
    await writeFile(path, `import { test } from 'node:test';\n${body}\n`);
    return path;
  };
  const failing = await file('a.test.ts', "test('fails', () => { throw new Error('as it must'); });");
  const skipping = await file('b.test.ts', "test('waits for a program', { skip: true }, () => {});");
  const failed = await runTests([failing]);
  assert.equal(failed.code, 1);
  assert.match(failed.stdout, /fails[^]*as it must/);
  assert.equal((await runTests([skipping])).code, 0);
  const strict = await runTests([skipping], { CI: 'true' });
  assert.equal(strict.code, 1);
  assert.match(strict.stderr, /CI does not allow:\nwaits for a program/);
});

test('files that leave their process as it was share one with others, but not their hooks', async () => {
  const shared = all.filter(sharesProcess);
  assert.ok(shared.length > 150, String(shared.length));
  for (const file of ['nearest', 'http/aliases', 'accounts/keys', 'commands/keys'])
    assert.ok(sharesProcess(`test/${file}.test.ts`), file);
  // The environment, a mock, a child process, a signal, and a paused engine.
  for (const file of ['http/keys', 'json/json-thread', 'faults/stop', 'faults/storage', 'http/queue'])
    assert.ok(!sharesProcess(`test/${file}.test.ts`), file);

  await using folder = await temporaryFolder();
  const files = Array.from('abcdefgh', (name) => join(folder.path, `${name}.test.ts`));
  const modules = shareProcesses(files, folder.path).filter((process) => process.files.length > 1);
  assert.deepEqual(
    modules.map((process) => process.files),
    [[files[0], files[7]]],
  );
  const first = `import { afterEach, test } from 'node:test';
export const hooks: string[] = [];
afterEach((t) => void hooks.push(t.name));
test('first', () => {});`;
  const last = `import assert from 'node:assert';
import { test } from 'node:test';
import { hooks } from './a.test.ts';
test('second', () => assert.deepEqual(hooks, ['first']));
test('third', () => assert.fail());`;
  const other = "import { test } from 'node:test';\ntest('other', () => {});";
  for (const [index, file] of files.entries())
    await writeFile(file, index === 0 ? first : index === 7 ? last : other);
  const { code, stdout } = await runTests(files);
  assert.equal(code, 1);
  assert.match(stdout, /slowest of 8 files/);
  assert.match(stdout, /failing tests:\s+test at \S*h\.test\.ts:5:1\s+✖ third[^]*$/);
  assert.doesNotMatch(stdout, /✖ second/);
});

test('property tests use the fast-check with the seed of the commit', () => {
  const files = globSync('{test,bench,torture}/**/*.ts', { cwd: ROOT });
  const direct = files.filter((file) => /^(import|\}) .*from 'fast-check'/m.test(textOf(file)));
  assert.deepEqual(direct, ['test/support/fast-check.ts']);
});

test('an unknown file, part or flag is an error, not a run of nothing', async () => {
  for (const [args, message] of [
    [['test/nowhere.test.ts'], /No test file matches test\/nowhere\.test\.ts/],
    [['--part=nothing'], /Unknown part: nothing\. Parts: console, model, outside, all\./],
    [['--watch'], /Unknown option '--watch'/],
  ] as const) {
    const { code, stderr } = await runTests(args);
    assert.equal(code, 1);
    assert.match(stderr, message);
  }
});
