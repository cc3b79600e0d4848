import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { tryLock } from '../../src/support/file-lock.ts';
import { Layout } from '../../src/models/layout.ts';
import { MODEL, runCli, startService, until, type TestService } from '../harness.ts';
import { buildGguf } from '../models/gguf-builder.ts';

const ID = 'local/tiny';

async function startWithFile(): Promise<
  TestService & { file: string; stateOf: (id: string) => string | null }
> {
  const service = await startService();
  const file = join(service.home, 'tiny.gguf');
  await writeFile(file, buildGguf());
  const stateOf = (id: string) =>
    service.service.router.overview().find((model) => model.id === id)?.replicas[0]?.state.state ?? null;
  return { ...service, file, stateOf };
}

test('the commands `models add`, `unload`, `load` and `remove` change the running service', async () => {
  await using running = await startWithFile();
  const { env, file, stateOf } = running;
  const options = ['--prompt-price', '0.5', '--cached-price', '0.05', '--keep'];
  const added = await runCli(['models', 'add', file, ...options], env);
  assert.deepEqual([added.code, added.stdout], [0, `${ID}\n`], added.stderr);
  await until(() => stateOf(ID) !== null);
  const listed = await runCli(['models', 'list', '--added', '--json'], env);
  assert.deepEqual(JSON.parse(listed.stdout), [
    {
      id: ID,
      loaded: true,
      keep: true,
      prompt: '0.5',
      completion: '0',
      input_cache_read: '0.05',
      source: file,
      fault: null,
    },
  ]);
  const files = JSON.parse((await runCli(['models', 'list', '--json'], env)).stdout) as {
    id: string;
    file: string;
  }[];
  assert.deepEqual(
    files.map((each) => [each.id, each.file]),
    [[ID, file]],
  );
  assert.equal((await runCli(['models', 'unload', 'tiny'], env)).code, 0);
  await until(() => stateOf(ID) === 'unloaded');
  assert.match(
    (await runCli(['models', 'list', '--added'], env)).stdout,
    /local\/tiny +no +0\.5 +0\.05 +0 +\//,
  );
  assert.equal((await runCli(['models', 'load', ID], env)).code, 0);
  await until(() => stateOf(ID) !== 'unloaded');
  const removed = await runCli(['models', 'remove', ID], env);
  assert.equal(removed.code, 0, removed.stderr);
  // The file is not in the models folder.
  assert.match(removed.stderr, /was not removed/);
  await until(() => stateOf(ID) === null);
});

test('an ID without a namespace gets the namespace `local`', async () => {
  await using running = await startWithFile();
  const { env, file } = running;
  const added = await runCli(['models', 'add', file, '--id', 'small'], env);
  assert.deepEqual([added.code, added.stdout], [0, 'local/small\n'], added.stderr);
});

/** Adds models with these IDs, which all use one file in the models folder. Returns the file. */
async function addWithFile(env: NodeJS.ProcessEnv, home: string, ...ids: string[]): Promise<string> {
  const file = join(home, 'models', 'shared.gguf');
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, buildGguf());
  for (const id of ids) {
    const { code, stderr } = await runCli(['models', 'add', file, '--id', id], env);
    assert.equal(code, 0, stderr);
  }
  return file;
}

test('`models remove` keeps a file that another model uses', async () => {
  await using running = await startWithFile();
  const { env, home } = running;
  const file = await addWithFile(env, home, 'local/one', 'local/two');
  const first = await runCli(['models', 'remove', 'local/one'], env);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stderr, /Its file is kept, because local\/two uses it\.$/m);
  assert.ok(existsSync(file));
  const second = await runCli(['models', 'remove', 'local/two'], env);
  assert.deepEqual([second.code, existsSync(file)], [0, false], second.stderr);
});

test('`models remove` says that the configuration defines the model', async () => {
  await using running = await startWithFile();
  const { code, stderr } = await runCli(['models', 'remove', MODEL], running.env);
  assert.equal(code, 1);
  assert.match(stderr, /The configuration defines the model test\/scripted\. To stop serving it/);
});

test('`models remove` deletes the file after the running service has canceled its download', async () => {
  await using running = await startWithFile();
  const { env, home, stateOf } = running;
  const file = await addWithFile(env, home, 'local/one');
  await until(() => stateOf('local/one') !== null);
  const layout = new Layout(home);
  await mkdir(layout.locksFolder);
  const lock = tryLock(layout.lockPath(file));
  assert.ok(lock);
  const removing = runCli(['models', 'remove', 'local/one'], env);
  await until(() => stateOf('local/one') === null);
  lock[Symbol.dispose]();
  const removed = await removing;
  assert.deepEqual([removed.code, existsSync(file)], [0, false], removed.stderr);
});

test('`models add` refuses models that exist, and unknown sources', async () => {
  await using running = await startWithFile();
  const { env, file } = running;
  for (const [args, message] of [
    [[file, '--id', MODEL], /The model test\/scripted is already in the configuration/],
    [['qwen3-0.5b.gguf'], /no such file/],
    [['Qwen/Qwen3-0.5B'], /is not in the catalog/],
    [[file, '--slots', 'two'], /Expected a whole number/],
    [[file, '--prompt-price', 'free'], /pricing\.prompt/],
    [[file, '--cached-price', '0.5'], /pricing\.input_cache_read/],
  ] as const) {
    const { code, stderr } = await runCli(['models', 'add', ...args], env);
    assert.notEqual(code, 0);
    assert.match(stderr, message);
  }
  const unknown = await runCli(['models', 'load', 'no/model'], env);
  assert.deepEqual(
    [unknown.code, /no\/model is not an added model with an embedded engine/.test(unknown.stderr)],
    [1, true],
  );
  assert.equal((await runCli(['models', 'add', file], env)).code, 0);
  assert.match((await runCli(['models', 'add', file], env)).stderr, /was already added/);
});

test('config print lists added models in a comment, except models that the file overrides', async () => {
  await using running = await startWithFile();
  const { env, file } = running;
  const before = await runCli(['config', 'print'], env);
  assert.ok(!before.stdout.includes('Models that were added'), before.stdout);
  assert.equal((await runCli(['models', 'add', file], env)).code, 0);
  const { code, stdout } = await runCli(['config', 'print'], env);
  assert.equal(code, 0);
  assert.match(stdout, /^# Models that were added to the service:\n# models:\n# {3}- id: local\/tiny\n/m);
  await writeFile(env.SLUICE_CONFIG ?? '', `models:\n  - id: ${ID}\n    engine: {file: 'scripted:'}\n`);
  const hidden = await runCli(['config', 'print'], env);
  assert.ok(!hidden.stdout.includes('Models that were added'), hidden.stdout);
});
