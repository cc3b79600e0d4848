import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, existsSync } from 'node:fs';
import { mkdir, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { DEFAULT_MODEL_ID } from '../../src/config/schema.ts';
import { findModel } from '../../src/models/catalog.ts';
import { Layout } from '../../src/models/layout.ts';
import { collectOutput, MODEL, runCli, startService, temporaryFolder, until } from '../harness.ts';
import { buildGguf, TINY_METADATA } from '../models/gguf-builder.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const MAIN = join(ROOT, 'src', 'main.ts');
const file = process.env.SLUICE_TEST_MODEL;

/** Serves a file at `/tiny.gguf`. If it `stalls`, sends only the first 1000 bytes. */
async function fileServer(path: string, stalls = false): Promise<{ url: string } & AsyncDisposable> {
  const { size } = await stat(path);
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-length': size });
    if (stalls) response.write(Buffer.alloc(1000));
    else if (request.method === 'HEAD') response.end();
    else createReadStream(path).pipe(response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/tiny.gguf`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Runs `sluice run` on a data directory. */
function spawnRun(model: string, home: string) {
  const env = { ...process.env, SLUICE_HOME: home, SLUICE_PORT: '0' };
  delete (env as NodeJS.ProcessEnv).SLUICE_CONFIG;
  const child = spawn(process.execPath, [MAIN, 'run', model], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const output = collectOutput(child);
  const ended = once(child, 'exit');
  return {
    child,
    env,
    output,
    ended,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

describe('sluice run', { skip: file === undefined && 'SLUICE_TEST_MODEL is not set' }, () => {
  test('downloads a model, serves only it, and prints commands that call it', async () => {
    await using folder = await temporaryFolder();
    await using server = await fileServer(file ?? '');
    await using running = spawnRun(server.url, folder.path);
    const { child, env, output, ended } = running;
    await until(() => {
      assert.equal(child.exitCode, null, output.stderr);
      return (
        output.stdout.includes('To call local/tiny from another terminal:\n') && output.stdout.endsWith('\n')
      );
    });
    assert.match(output.stdout, /\nModel: local\/tiny \(Q4_1, /);
    assert.ok(!output.stdout.includes('A better model'), output.stdout);
    const printed = output.stdout.split('To call local/tiny from another terminal:\n')[1] ?? '';
    // The model could otherwise generate until the context is full.
    const commands = printed.replace('{"model"', '{"max_tokens":4,"model"');
    assert.notEqual(commands, printed);
    const { stdout } = await promisify(execFile)('bash', ['-euc', commands], { cwd: ROOT, env });
    assert.match(stdout, /"model":"local\/tiny".*"completion_tokens":\d/);
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });

  test('serves the default model of a service without a configuration file', async () => {
    await using folder = await temporaryFolder();
    const [copy = ''] = new Layout(folder.path).files(findModel(DEFAULT_MODEL_ID)!.sources[0]);
    await mkdir(dirname(copy), { recursive: true });
    await symlink(file ?? '', copy);
    await using running = spawnRun(DEFAULT_MODEL_ID, folder.path);
    const { child, output, ended } = running;
    await until(() => {
      assert.equal(child.exitCode, null, output.stderr);
      return output.stdout.includes(`To call ${DEFAULT_MODEL_ID} from another terminal:\n`);
    });
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });

  test('resumes an interrupted download when it is run again', async () => {
    await using folder = await temporaryFolder();
    await using server = await fileServer(file ?? '', true);
    await using running = spawnRun(server.url, folder.path);
    const { child, output, ended } = running;
    await until(() => output.stderr.includes('Downloading'));
    child.kill('SIGINT');
    assert.deepEqual(await ended, [130, null]);
    assert.match(output.stderr, /Interrupted\. Run the same command again to resume\./);
    assert.equal(output.stdout, '');
  });
});

test('sluice run adds the model to the running service, loads it again, and makes it the default unless it returns embeddings', async () => {
  await using service = await startService();
  const { env, home, url } = service;
  const path = join(home, 'tiny.gguf');
  await writeFile(path, buildGguf());
  const stateOf = (id: string) =>
    service.service.router.overview().find((model) => model.id === id)?.replicas[0]?.state.state ?? null;
  const added = await runCli(['run', path], env);
  assert.equal(added.code, 0, added.stderr);
  assert.match(added.stderr, /The running service \(process \d+\) loads local\/tiny now\./);
  assert.ok(added.stdout.includes(`curl ${url}/v1/chat/completions`), added.stdout);
  await until(() => stateOf('local/tiny') !== null);
  assert.equal((await runCli(['models', 'unload', 'local/tiny'], env)).code, 0);
  await until(() => stateOf('local/tiny') === 'unloaded');
  const again = await runCli(['run', 'tiny'], env);
  assert.equal(again.code, 0, again.stderr);
  await until(() => stateOf('local/tiny') !== 'unloaded');
  assert.equal(service.service.router.overview()[0]?.id, 'local/tiny');
  assert.notEqual(stateOf(MODEL), null);

  const embedder = join(home, 'embedder.gguf');
  await writeFile(embedder, buildGguf({ metadata: { ...TINY_METADATA, 'llama.pooling_type': 1 } }));
  const { code, stdout, stderr } = await runCli(['run', embedder], env);
  assert.equal(code, 0, stderr);
  assert.ok(stdout.includes(`curl ${url}/v1/embeddings`), stdout);
  await until(() => stateOf('local/embedder') !== null);
  assert.equal(service.service.router.overview()[0]?.id, 'local/tiny');
});

test('Ctrl-C while sluice run adds the model ends it before the service starts', async () => {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'tiny.gguf');
  await writeFile(path, buildGguf());
  await using running = spawnRun(path, folder.path);
  const { child, output, ended } = running;
  await until(() => existsSync(join(folder.path, 'sluice.db')));
  child.kill('SIGINT');
  const [code] = await ended;
  // A signal that comes later than here stops the service, which exits with 0.
  assert.ok(code === 130 || code === 0, `${code}: ${output.stderr}`);
});

test('sluice run refuses unknown models', async () => {
  await using folder = await temporaryFolder();
  for (const [model, message] of [
    ['missing.gguf', /no such file/],
    ['Qwen/Qwen3-0.5B', /is not in the catalog/],
    ['qwen3-0.6bb', /^The model qwen3-0\.6bb is not in the catalog\. Did you mean `Qwen\/Qwen3-0\.6B`\?/],
  ] as const) {
    const { code, stderr } = await runCli(['run', model], { ...process.env, SLUICE_HOME: folder.path });
    assert.equal(code, 1);
    assert.match(stderr, message);
  }
});
